/** Shows a request as it would be sent, with masked values. Sends nothing: the code of the service runs in the page. */

import { Button, Textarea } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import type { Destination, Token } from '../../../sdk/src/sallyport.ts';
import { type DestinationRequest, isPlainPath, matchesPath } from '../../../src/domain/destination.ts';
import { Failure } from '../../../src/domain/error.ts';
import { prepareRequest } from '../../../src/domain/placeholders.ts';
import { runSteps } from '../../../src/domain/steps.ts';
import { InlineError } from '../frame/error-notice.tsx';
import { useSignedIn } from '../frame/signed-in.ts';

type Tried = Pick<Destination, 'origin' | 'requests' | 'header_names'>;
type Listed = Tried['requests'][number];

/** A request with a placeholder everywhere it is allowed. */
function sampleOf({ method, path, placeholders }: Listed): string {
  const places = (prefix: string) =>
    placeholders.filter(({ at }) => at.startsWith(prefix)).map(({ at }) => at.slice(prefix.length));
  const token = '{{ token: ID }}';
  const pointers = places('/').reduce<object>((all, at) => withValue(all, at.split('/'), token), {});
  const fields = places('form:').map((name) => `${name}=${token}`);
  const body = fields.length > 0 ? fields.join('&') : JSON.stringify(pointers, undefined, 2);
  const head = [
    `${method} ${path.replace(/:\w+/g, '1')}`,
    ...places('header:').map((name) => `${name}: ${token}`),
  ];
  return [...head, ...(body === '{}' ? [] : ['', body])].join('\n');
}

function withValue(root: object, [name = '', ...rest]: readonly string[], value: unknown): object {
  const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
  const inner = Object.hasOwn(root, key) ? (root as Record<string, unknown>)[key] : undefined;
  if (rest.length === 0) return { ...root, [key]: inner ?? value };
  return { ...root, [key]: withValue(isObject(inner) ? inner : {}, rest, value) };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** The data as the key may see it. Where `from` finds nothing in it, the masked text, or a note. */
function visibleData({ data }: Token, { placeholders }: Listed): unknown {
  const text = isObject(data) || data === undefined ? '(hidden)' : data;
  const pointers = placeholders.flatMap(({ from }) => from ?? []);
  if (pointers.length === 0) return data ?? text;
  const seen = isObject(data) ? data : {};
  return pointers.reduce<object>((all, from) => withValue(all, from.slice(1).split('/'), text), seen);
}

async function dryRun(
  text: string,
  { origin, requests, header_names }: Tried,
  read: (id: string) => Promise<Token>,
) {
  const [head = '', ...parts] = text.trim().split('\n\n');
  const [first = '', ...lines] = head.split('\n');
  const [method = '', target = ''] = first.split(' ');
  const [path = '', search] = target.split('?');
  const listed = requests.find(
    (one) => one.method === method && isPlainPath(path) && matchesPath(one.path, path),
  );
  if (!listed) throw new Failure('request_not_listed');
  const headers = new Map(
    lines.map((line) => {
      const at = line.indexOf(':');
      return [line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim()];
    }),
  );
  const body = parts.join('\n\n');
  const type = /^[[{]/.test(body) ? 'json' : 'form';
  const request = {
    path,
    query: new URLSearchParams(search),
    headers,
    body: body === '' ? undefined : ({ type, text: body } as const),
  };
  const prepared = runSteps(prepareRequest(listed as DestinationRequest, request));
  const tokens = await Promise.all(prepared.tokens.map(read));
  const filled = prepared.fill((id) => visibleData(tokens.find((one) => one.id === id) as Token, listed));
  const secrets = header_names.map((name) => [name, '••••••••'] as const);
  const sent = [...Object.entries(filled.headers), ...secrets].map(([name, value]) => `${name}: ${value}`);
  return [`${method} ${origin}${filled.path}`, ...sent, '', filled.body ?? ''].join('\n').trim();
}

export function DryRun({ destination }: { destination: Tried }) {
  const { api } = useSignedIn();
  const [text, setText] = useState(() => sampleOf(destination.requests[0] as Listed));
  const [sent, setSent] = useState<string>();
  const [error, setError] = useState<unknown>();
  const show = (event: FormEvent) => {
    event.preventDefault();
    setSent(undefined);
    setError(undefined);
    dryRun(text, destination, (id) => api.tokens.get(id)).then(setSent, setError);
  };
  return (
    <form className="stack" onSubmit={show}>
      <Textarea
        label="Request of a caller"
        description="Method and path, headers, an empty line, and JSON or a form. The request is not sent."
        rows={8}
        spellCheck={false}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <div className="foot">
        <Button type="submit" variant="default">
          Show as sent
        </Button>
      </div>
      {error instanceof Failure ? (
        <p className="error-text" role="alert">
          {Object.values(error.errors ?? {})
            .flat()
            .join('; ') || error.detail}
        </p>
      ) : (
        <InlineError error={error} />
      )}
      {sent !== undefined && (
        <section className="snippet" aria-label="Request as it would be sent, with masked values">
          <pre>{sent}</pre>
        </section>
      )}
    </form>
  );
}
