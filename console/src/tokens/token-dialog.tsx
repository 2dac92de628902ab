/** One token: its masked data and its metadata. */
import { Modal } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Token } from '../../../sdk/src/sallyport.ts';
import { escapeJson, escapeText } from '../../../src/domain/escape.ts';
import { ApplicationLink } from '../applications/application-link.tsx';
import { CopyButton } from '../frame/copy-button.tsx';
import { formatDate, plural, timeAgo } from '../frame/format.ts';
import { useNow } from '../frame/load.ts';

export function TokenDialog({ token, close }: { token: Token; close: () => void }) {
  return (
    <Modal opened onClose={close} size={620} title={`Token ${token.id}`} className="token-dialog">
      <div className="stack">
        <section className="stack-tight">
          <h3>Data</h3>
          <Data token={token} />
        </section>
        <section className="stack-tight">
          <h3>Details</h3>
          <Details token={token} />
        </section>
        {token.metadata !== undefined && Object.keys(token.metadata).length > 0 && (
          <section className="stack-tight">
            <h3>Metadata</h3>
            <dl className="facts">
              {Object.entries(token.metadata).map(([name, value]) => (
                <Fact key={name} name={escapeText(name)}>
                  <bdi>{escapeText(value)}</bdi>
                </Fact>
              ))}
            </dl>
          </section>
        )}
        {token.mask !== undefined && (
          <section className="stack-tight">
            <h3>Mask</h3>
            <div className="snippet">
              <pre>{escapeJson(JSON.stringify(token.mask, null, 2))}</pre>
            </div>
          </section>
        )}
      </div>
    </Modal>
  );
}

/** Empty if its uses are not limited. */
export function usesOf({ max_uses, uses = 0 }: Token): string {
  return max_uses === undefined ? '' : `${uses} of ${plural(max_uses, 'use')}`;
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A flat object is shown as a list, other data as JSON. */
function Data({ token: { data, mask, max_uses } }: { token: Token }) {
  if (data === undefined) {
    const reason = mask === undefined ? 'Not shown: the token has no mask.' : 'Redacted for this key.';
    return <p className="quiet">{max_uses === undefined ? reason : 'Never shown.'}</p>;
  }
  const json = JSON.stringify(data, null, 2);
  const flat =
    typeof data === 'object' &&
    data !== null &&
    !Array.isArray(data) &&
    Object.values(data).every((value) => typeof value !== 'object');
  if (!flat) {
    return (
      <div className="snippet">
        <pre>{escapeJson(json)}</pre>
        <CopyButton text={json} />
      </div>
    );
  }
  return (
    <div className="snippet token-fields">
      <dl className="facts">
        {Object.entries(data).map(([name, value]) => (
          <Fact key={name} name={escapeText(name)}>
            <code>{escapeText(String(value))}</code>
          </Fact>
        ))}
      </dl>
      <CopyButton text={json} />
    </div>
  );
}

function Details({ token }: { token: Token }) {
  const now = useNow(60_000);
  const time = (at: string, by: string | undefined) => (
    <>
      {formatDate(at)} <span className="faint">({timeAgo(at, now)})</span>
      {by !== undefined && (
        <>
          {' '}
          by <ApplicationLink id={by} />
        </>
      )}
    </>
  );
  return (
    <dl className="facts">
      <Fact name="Container">
        <code>{token.container}</code>
      </Fact>
      <Fact name="Type">{token.type}</Fact>
      <Fact name="Created">{time(token.created_at, token.created_by)}</Fact>
      {token.modified_at !== undefined && (
        <Fact name="Changed">{time(token.modified_at, token.modified_by)}</Fact>
      )}
      {token.max_uses !== undefined && <Fact name="Uses">{usesOf(token)}, then it is deleted</Fact>}
      {token.expires_at !== undefined && <Fact name="Expires">{time(token.expires_at, undefined)}</Fact>}
    </dl>
  );
}
