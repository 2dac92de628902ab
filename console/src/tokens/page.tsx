/** Tokens by container, masked or redacted. */
import { Button, Modal, Select } from '@mantine/core';
import { useRef, useState } from 'react';
import type { Token } from '../../../sdk/src/sallyport.ts';
import { escapeJson } from '../../../src/domain/escape.ts';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatDate, formatNumber, plural, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLoad, useNow } from '../frame/load.ts';
import { useRouteQuery } from '../frame/route.ts';
import { SearchField } from '../frame/search-field.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { SkeletonRows } from '../frame/skeleton.tsx';
import { TableTools } from '../frame/table-tools.tsx';
import { ContainerTree } from './container-tree.tsx';
import { DeleteDialog } from './delete-dialog.tsx';
import { ImportDialog } from './import-dialog.tsx';
import { useTokens } from './query.ts';
import { TokenDialog, usesOf } from './token-dialog.tsx';
import { treeOf } from './tree.ts';

const pageSize = 100;
const defaults = { container: '/', type: '', q: '' };
/** The id of the token whose details are open. */
const dialog = { open: '' };

export function Tokens() {
  const signedIn = useSignedIn();
  const [action, setAction] = useState<'import' | 'delete'>();
  const [query, setQuery] = useRouteQuery(defaults);
  const all = useTokens(defaults);
  const { data, error, reload } = useTokens(query);
  const [{ open }, setDialog] = useRouteQuery(dialog);
  const done = () => {
    setAction(undefined);
    all.reload();
    reload();
  };
  const filtered = query.type !== '' || query.q !== '' || query.container !== '/';
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Tokens</h1>
          <p className="quiet" aria-live="polite">
            {data ? countLabel(data) : 'Tokens visible to this key'}
          </p>
        </div>
        <div className="actions">
          {query.container !== '/' && holds(signedIn, 'token:delete') && (
            <Button variant="default" onClick={() => setAction('delete')}>
              Delete all in container…
            </Button>
          )}
          {holds(signedIn, 'token:create') && (
            <Button variant="default" onClick={() => setAction('import')}>
              Import…
            </Button>
          )}
        </div>
      </header>
      {action === 'import' && <ImportDialog close={done} />}
      {action === 'delete' && <DeleteDialog container={query.container} close={done} />}
      <div className="tools">
        <SearchField
          label="Search tokens"
          placeholder="Token ID, or metadata such as order=1042"
          value={query.q}
          onChange={(q) => setQuery({ q }, 'replace')}
        />
        <TypeSelect
          tokens={all.data?.tokens ?? []}
          value={query.type}
          choose={(type) => setQuery({ type })}
        />
      </div>
      {error !== undefined && <ErrorNotice error={error} retry={reload} />}
      {!all.data && error === undefined && <SkeletonRows />}
      {all.data?.tokens.length === 0 && !filtered && (
        <div className="empty">
          <Icon name="tokens" size={28} />
          <h2>No tokens</h2>
          <p>No tokens are visible to this key. Create tokens with the API, the CLI or the SDK.</p>
        </div>
      )}
      {all.data !== undefined && (all.data.tokens.length > 0 || filtered) && (
        <div className="columns columns-tree">
          <ContainerTree
            root={treeOf(all.data.tokens)}
            chosen={query.container}
            choose={(container) => setQuery({ container })}
            complete={!all.data.more}
          />
          {data ? (
            <TokenList
              key={JSON.stringify(query)}
              tokens={data.tokens}
              open={({ id }) => setDialog({ open: id })}
            />
          ) : (
            error === undefined && <SkeletonRows />
          )}
        </div>
      )}
      {open !== '' && (
        <OpenToken
          key={open}
          id={open}
          loaded={data?.tokens.find(({ id }) => id === open)}
          close={() => setDialog({ open: '' })}
        />
      )}
    </div>
  );
}

/** The service does not count very long lists. */
function countLabel({ tokens, total, more }: NonNullable<ReturnType<typeof useTokens>['data']>): string {
  const shown = plural(tokens.length, 'token');
  if (!more) return `${shown} visible to this key`;
  if (total === undefined) return `Newest ${shown} visible to this key. There are more`;
  return `${plural(total, 'token')} visible to this key. The newest ${formatNumber(tokens.length)} are listed`;
}

interface OpenTokenProps {
  readonly id: string;
  /** The token, if the list has it. */
  readonly loaded: Token | undefined;
  readonly close: () => void;
}

function OpenToken({ id, loaded, close }: OpenTokenProps) {
  const { api } = useSignedIn();
  const { data, error } = useLoad(`token ${id}`, async (signal) => loaded ?? api.tokens.get(id, { signal }));
  if (data) return <TokenDialog token={data} close={close} />;
  if (error === undefined) return null;
  return (
    <Modal opened onClose={close} title={`Token ${id}`}>
      <ErrorNotice error={error} />
    </Modal>
  );
}

interface TypeSelectProps {
  readonly tokens: readonly Token[];
  readonly value: string;
  readonly choose: (type: string) => void;
}

/** Offers the types of the loaded tokens. The user can type any other. */
function TypeSelect({ tokens, value, choose }: TypeSelectProps) {
  const [text, setText] = useState(value);
  const typed = text.trim().toLowerCase();
  const known = useRef(new Set<string>()).current;
  for (const { type } of tokens) known.add(type);
  const offered = [...new Set([...known, value, ...(/^[a-z0-9_-]+$/.test(typed) ? [typed] : [])])];
  return (
    <Select
      aria-label="Type"
      placeholder="Any type"
      searchable
      clearable
      data={offered.filter(Boolean).sort()}
      nothingFoundMessage="Nothing found"
      value={value === '' ? null : value}
      onChange={(type) => choose(type ?? '')}
      searchValue={text}
      onSearchChange={setText}
      clearButtonProps={{ 'aria-label': 'Clear type', 'aria-hidden': false, tabIndex: 0 }}
    />
  );
}

const head = ['ID', 'Container', 'Type', 'Metadata', 'Uses', 'Created by', 'Created', 'Expires'];

/** Without data, so that no file contains plaintext. */
function cellsOf(token: Token) {
  const { id, container, type, metadata, created_by: by = '', created_at: at, expires_at = '' } = token;
  return [id, container, type, metadata ? JSON.stringify(metadata) : '', usesOf(token), by, at, expires_at];
}

function TokenList({ tokens, open }: { tokens: readonly Token[]; open: (token: Token) => void }) {
  const now = useNow(60_000);
  const [count, setCount] = useState(pageSize);
  if (tokens.length === 0) {
    return (
      <div className="empty">
        <Icon name="tokens" size={28} />
        <h2>No matching tokens</h2>
        <p>Change the search, the type or the container. Token IDs must match completely.</p>
      </div>
    );
  }
  return (
    <div>
      <TableTools name="tokens" head={head} rows={() => tokens.map(cellsOf)} />
      <section className="card list-card" aria-label="Tokens in this container">
        <ul className="token-list">
          {tokens.slice(0, count).map((token) => (
            <li key={token.id}>
              <button type="button" onClick={() => open(token)}>
                <span className="token-id">
                  <code>{token.id}</code>
                  <small>
                    {token.container}
                    {token.max_uses !== undefined && ` · ${usesOf(token)}`}
                  </small>
                </span>
                <span className="tag">{token.type}</span>
                <span className="token-data">
                  {token.data === undefined ? (
                    <span className="faint">{token.mask === undefined ? 'no mask' : 'redacted'}</span>
                  ) : (
                    <code>{escapeJson(JSON.stringify(token.data))}</code>
                  )}
                </span>
                <small className="token-time faint" title={formatDate(token.created_at)}>
                  {timeAgo(token.created_at, now)}
                </small>
              </button>
            </li>
          ))}
        </ul>
        {tokens.length > count && (
          <div className="foot">
            <Button variant="default" onClick={() => setCount(count + pageSize)}>
              Show more
            </Button>
          </div>
        )}
      </section>
    </div>
  );
}
