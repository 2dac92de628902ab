/** Tokens by container, as the signed-in key sees them. */
import { Button, Modal } from '@mantine/core';
import { useState } from 'react';
import type { Token } from '../../../sdk/src/sallyport.ts';
import { escapeJson, escapeText } from '../../../src/domain/escape.ts';
import { CopyButton } from '../frame/copy-button.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatDate, formatNumber, plural, timeAgo } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLoad, useNow } from '../frame/load.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { type Branch, canonical, treeOf } from './tree.ts';

/** The most tokens loaded at a time. Beyond that, tokens are loaded per container. */
const maxTokens = 1000;
const pageSize = 100;

/** Tokens in a container and below. Loads nothing if `container` is undefined. */
function useTokens(container: string | undefined) {
  const { api } = useSignedIn();
  return useLoad(`tokens ${container}`, async (signal) => {
    const found: Token[] = [];
    if (container === undefined) return found;
    const query = container === '/' ? {} : { container };
    for await (const token of api.tokens.all(query, { signal })) {
      found.push(token);
      if (found.length >= maxTokens) break;
    }
    return found;
  });
}

export function Tokens() {
  const all = useTokens('/');
  const [path, setPath] = useState('/');
  const [open, setOpen] = useState<Token>();
  const full = (all.data?.length ?? 0) >= maxTokens;
  const narrowed = useTokens(full ? path : undefined);
  const here = (full ? narrowed.data : all.data)?.filter((token) =>
    canonical(token.container).startsWith(path),
  );
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Tokens</h1>
          <p className="quiet">
            {all.data
              ? `${full ? 'Newest ' : ''}${plural(all.data.length, 'token')} visible to this key`
              : 'Tokens visible to this key'}
          </p>
        </div>
      </header>
      {all.error !== undefined && <ErrorNotice error={all.error} retry={all.reload} />}
      {all.data?.length === 0 && (
        <div className="empty">
          <Icon name="tokens" size={28} />
          <h2>No tokens</h2>
          <p>No tokens are visible to this key. Create tokens with the API, the CLI or the SDK.</p>
        </div>
      )}
      {all.data !== undefined && all.data.length > 0 && (
        <div className="columns columns-tree">
          <nav className="card tree" aria-label="Containers">
            <TreeNode branch={treeOf(all.data)} chosen={path} choose={setPath} />
          </nav>
          <TokenList tokens={here ?? []} open={setOpen} />
        </div>
      )}
      {open && <TokenDialog token={open} close={() => setOpen(undefined)} />}
    </div>
  );
}

interface TreeProps {
  readonly branch: Branch;
  readonly chosen: string;
  readonly choose: (path: string) => void;
}

function TreeNode({ branch, chosen, choose }: TreeProps) {
  return (
    <>
      <button
        type="button"
        className="tree-node"
        aria-current={chosen === branch.path ? 'true' : undefined}
        onClick={() => choose(branch.path)}
      >
        <Icon name="folder" size={14} />
        <span>{branch.name}</span>
        <small>{formatNumber(branch.count)}</small>
      </button>
      {branch.branches.length > 0 && (
        <ul>
          {branch.branches.map((each) => (
            <li key={each.path}>
              <TreeNode branch={each} chosen={chosen} choose={choose} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function TokenList({ tokens, open }: { tokens: readonly Token[]; open: (token: Token) => void }) {
  const now = useNow(60_000);
  const [count, setCount] = useState(pageSize);
  return (
    <section className="card list-card" aria-label="Tokens in this container">
      <ul className="token-list">
        {tokens.slice(0, count).map((token) => (
          <li key={token.id}>
            <button type="button" onClick={() => open(token)}>
              <span className="token-id">
                <code>{token.id}</code>
                <small>{token.container}</small>
              </span>
              <span className="tag">{token.type}</span>
              <span className="token-data">
                {token.data === undefined ? (
                  <span className="faint">redacted</span>
                ) : (
                  <code>{escapeJson(JSON.stringify(token.data))}</code>
                )}
              </span>
              <small className="faint" title={formatDate(token.created_at)}>
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
  );
}

function TokenDialog({ token, close }: { token: Token; close: () => void }) {
  const { data, mask, metadata, ...rest } = token;
  return (
    <Modal
      opened
      onClose={close}
      size={600}
      title={`Token ${token.id}`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className="stack">
        <dl className="facts">
          {Object.entries({ ...rest, ...metadata }).map(([name, value]) => (
            <div key={name} className="fact">
              <dt>{name}</dt>
              <dd>
                <bdi>{escapeText(String(value))}</bdi>
              </dd>
            </div>
          ))}
        </dl>
        <div className="snippet">
          <pre>
            {data === undefined ? 'Redacted for this key.' : escapeJson(JSON.stringify(data, null, 2))}
          </pre>
          {data !== undefined && <CopyButton text={JSON.stringify(data, null, 2)} />}
        </div>
        {mask !== undefined && (
          <p className="fine">
            Mask: <code>{escapeJson(JSON.stringify(mask))}</code>
          </p>
        )}
      </div>
    </Modal>
  );
}
