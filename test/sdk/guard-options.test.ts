/** A guard with a wrong option is rejected when it is created, not by the first request. */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type GuardOptions,
  guardExpress,
  guardFastify,
  guardFetch,
  guardHono,
  guardNext,
} from '../../sdk/src/guard.ts';
import { Sallyport, SallyportError } from '../../sdk/src/sallyport.ts';
import { root } from '../support/service.ts';
import * as usage from './guard-usage.ts';

const client = new Sallyport({ url: 'http://127.0.0.1:9', key: 'x' });
const valid = { client, permission: 'invoice:read', fields: ['iban'] };

const guards: [name: string, create: (options: GuardOptions) => unknown][] = [
  ['guardFetch', (options) => guardFetch(options, () => new Response())],
  ['guardNext', (options) => guardNext(options, () => new Response())],
  ['guardExpress', (options) => guardExpress(options)],
  ['guardFastify', (options) => guardFastify(options)],
  ['guardHono', (options) => guardHono(options)],
];

const wrong: [option: string, options: object][] = [
  ['fields', { fields: undefined }],
  ['fields', { fields: 'iban' }],
  ['fields', { fields: [7] }],
  ['client', { client: undefined }],
  ['client', { client: {} }],
  ['permission', { permission: undefined }],
  ['permission', { permission: '' }],
  ['permission', { permission: 'read' }],
  ['mask', { mask: 'XXXX' }],
  ['resource', { resource: { container: '/customers/42/' } }],
  ['notJson', { notJson: true }],
];

describe.each(guards)('%s', (name, create) => {
  test.each(wrong)('rejects a wrong `%s` (%p)', (option, options) => {
    const attempt = () => create({ ...valid, ...options } as GuardOptions);
    expect(attempt).toThrow(SallyportError);
    expect(attempt).toThrow(`${name}: \`${option}\` must `);
  });

  test('accepts an empty list of fields', () => {
    expect(() => create({ ...valid, fields: [] })).not.toThrow();
  });
});

test('the guide shows the calls that the type test of each framework has', () => {
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const [, table = ''] = read('docs/guides/protect-your-own-api.md').split('\n## Frameworks\n');
  const calls = [...table.matchAll(/^\|.*?\| `(?:export )?([^`…]+)/gm)].map(([, call = '']) => call.trim());
  expect(calls.length).toBe(Object.keys(usage).length);
  const compiled = read('test/sdk/guard-usage.ts').replace(/\s+/g, ' ');
  expect(calls.filter((call) => !compiled.includes(call))).toEqual([]);
});
