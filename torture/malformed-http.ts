/** Malformed HTTP requests for a raw socket. */
import type { Random } from './random.ts';

export interface MalformedRequest {
  readonly text: string;
  /** Whether the request is complete and well-framed. The service, and not Bun, must answer it. */
  readonly sound: boolean;
  /** Whether the request is truncated and cannot be answered. */
  readonly unfinished?: boolean;
}

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

/** A random request as text, with one character per byte. */
export function rawRequest(random: Random, key: string): MalformedRequest {
  const own = [`Host: x`, `SVC-API-KEY: ${key}`];
  const json = '{"name":"x","type":"private","permissions":["mine:x"]}';
  const request = (line: string, headers: readonly string[], body = '') =>
    `${[line, ...headers, 'Connection: close'].join('\r\n')}\r\n\r\n${body}`;
  const get = (target: string, ...headers: string[]) =>
    request(`GET ${target} HTTP/1.1`, [...own, ...headers]);
  const post = (headers: readonly string[], body: string) =>
    request('POST /applications HTTP/1.1', [...own, 'Content-Type: application/json', ...headers], body);
  const chunked = 'Transfer-Encoding: chunked';
  const length = `Content-Length: ${json.length}`;
  const sound = (text: string): MalformedRequest => ({ text, sound: true });
  const broken = (text: string): MalformedRequest => ({ text, sound: false });
  const unfinished = (text: string): MalformedRequest => ({ text, sound: false, unfinished: true });

  return random.one<() => MalformedRequest>([
    () => sound(get('/applications')),
    () =>
      sound(get(random.one(['/%', '/%00', '/applications/%ff', '/a;b', '/applications?%', '//x', '/../x']))),
    () => sound(get('/applications', `X-Odd: ${'a'.repeat(random.below(8000))}`)),
    () => sound(get('/applications', 'SVC-API-KEY: x')),
    () => sound(get('/applications', `Cookie: ${'\u00ff'.repeat(20)}`)),
    () => sound(request('OPTIONS /applications HTTP/1.1', own)),
    () => sound(request('DELETE /applications HTTP/1.1', own)),
    () => sound(post([length], json)),
    () => sound(post([chunked], `${chunk(json.slice(0, 7))}${chunk(json.slice(7))}0\r\n\r\n`)),
    () => sound(post([chunked], `${chunk('{"a":')}${chunk('\u00ff')}0\r\n\r\n`)),
    () => sound(post([length, 'Content-Encoding: gzip'], json)),
    () => sound(post(['Content-Length: 0'], '')),
    () => sound(post([`Content-Length: 70000`], ' '.repeat(70_000))),
    () => sound(post([length, 'Content-Type: text/xml'], json)),
    () => broken(post([length, chunked], `${chunk(json)}0\r\n\r\n`)),
    () => broken(post([length, 'Content-Length: 3'], json)),
    () => broken(post([`Content-Length: ${random.one(['-1', '+2', '0x2', '9'.repeat(30), 'x'])}`], '{}')),
    () => unfinished(post(['Content-Length: 500'], json)),
    () => broken(post(['Transfer-Encoding: gzip, chunked'], '0\r\n\r\n')),
    () => broken(post([chunked], `${random.one(['zz', 'f'.repeat(40), '-1', ''])}\r\n${json}\r\n0\r\n\r\n`)),
    () => broken(get('/applications', 'X-Odd: a\u0000b')),
    () => broken(get('/applications', 'X-Odd: a\r\n folded')),
    () => broken(get('/applications', 'X Odd: a', 'X-Odd : b')),
    () => broken(get('/applications', `X-Odd: ${'a'.repeat(40_000)}`)),
    () => broken(get('/applications', ...Array<string>(1000).fill('X-Odd: a'))),
    () => broken(request(`GET /applications HTTP/${random.one(['0.9', '2.0', '9.9', 'x'])}`, own)),
    () => broken(request(`${random.one(['FOO', 'get', 'G', '', 'GET\t'])} /applications HTTP/1.1`, own)),
    () => broken(request('GET /applications HTTP/1.1', ['SVC-API-KEY: x'])),
    () => broken(request('GET  /applications  HTTP/1.1', own)),
    () => broken(request(`GET ${random.one(['*', 'x', '/a b', '/\u0000'])} HTTP/1.1`, own)),
    () => broken(get('/applications').replaceAll('\r\n', '\n')),
    () => unfinished(get('/applications').slice(0, random.below(60))),
    () => unfinished(Array.from({ length: 100 }, () => String.fromCharCode(random.below(256))).join('')),
  ])();
}
