/** What is found in a stream is what is found in a whole reply, before its first byte is passed on. */
import { describe, expect, test } from 'bun:test';
import { Echo, echoFilter } from '../../src/domain/echoes.ts';
import { runSteps } from '../../src/domain/steps.ts';
import { growth } from '../support/growth.ts';

const secret = 'sk_live:51/Hht+bq="é'; // 20 characters, some of which every encoding escapes
const percent = encodeURIComponent(secret);
const bytes = Buffer.from(secret);
const units = (text: string) =>
  Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`);

/** What is passed on of the chunks, and whether the text was found. */
function filtered(chunks: readonly (string | Buffer)[], texts = [secret]): [string, boolean] {
  const filter = runSteps(echoFilter(texts, () => {}));
  let out = '';
  try {
    for (const chunk of chunks) out += runSteps(filter.push(Buffer.from(chunk as string))).toString('latin1');
    return [out + filter.end().toString('latin1'), false];
  } catch (error) {
    if (!(error instanceof Echo)) throw error;
    return [out, true];
  }
}

const forms: Record<string, string> = {
  plain: secret,
  'in another case': secret.replace(/[a-z]/g, (letter) => letter.toUpperCase()),
  'with white space in it': [...secret].join('\n'),
  percent,
  'percent of every byte': [...bytes].map((byte) => `%${byte.toString(16)}`).join(''),
  'JSON escapes': JSON.stringify(secret).slice(1, -1),
  'JSON escapes of every character': units(secret).join(''),
  hexadecimal: bytes.toString('hex'),
  'base64 in lines': bytes.toString('base64').replace(/.{7}/g, '$&\\n'),
  'base64 at offset 1': Buffer.concat([Buffer.from('x'), bytes]).toString('base64'),
  'base64 at offset 2': Buffer.concat([Buffer.from('xy'), bytes]).toString('base64url'),
};

describe.each(Object.entries(forms))('a text as %s', (_, form) => {
  const source = Buffer.from(`data: "a\\n%2" ${form} and more`);
  const start = Buffer.from(`data: "a\\n%2" `).length;

  test('is found wherever the stream is cut, and none of its bytes is passed on', () => {
    const cuts = Array.from({ length: source.length + 1 }, (_, at) => [
      source.subarray(0, at),
      source.subarray(at),
    ]);
    const single = Array.from(source, (byte) => Buffer.from([byte]));
    for (const chunks of [...cuts, single]) {
      const [out, isFound] = filtered(chunks);
      expect(isFound).toBe(true);
      // Of base64 at an offset, the first three characters have bits of other bytes.
      expect(source.toString('latin1')).toStartWith(out);
      expect(out.length).toBeLessThanOrEqual(start + 3);
    }
  });

  test('passes without its last byte, as soon as it cannot be the text', () => {
    const other = Buffer.from(`${form.slice(0, -6)}##`);
    const single = Array.from(other, (byte) => Buffer.from([byte]));
    for (const chunks of [[other], single])
      expect(filtered(chunks)).toEqual([other.toString('latin1'), false]);
  });
});

test('an event is passed on at once, with escapes and white space at its end', () => {
  const filter = runSteps(echoFilter([secret], () => {}));
  for (const event of ['data: {"text":"\\n"}\n\n', 'data: [DONE]\n\n', '100 %\n\n', '\\u00e9\n\n'])
    expect(runSteps(filter.push(Buffer.from(event))).toString()).toBe(event);
});

test('short texts are not searched for', () => {
  expect(filtered(['1234567'], ['1234567'])).toEqual(['1234567', false]);
  expect(filtered(['12345678'], ['12345678'])).toEqual(['', true]);
});

test('white space in a text counts if few other characters are left', () => {
  expect(filtered(['a b ab'], ['a          b'])).toEqual(['a b ab', false]);
  expect(filtered(['a     ', '     b'], ['a          b'])).toEqual(['', true]);
});

test('a stream in which everything may begin a text is not held without end', () => {
  const filter = runSteps(echoFilter([secret], () => {}));
  const push = () => runSteps(filter.push(Buffer.from(' '.repeat(60_000))));
  runSteps(filter.push(Buffer.from('s')));
  expect(() => {
    for (let times = 0; times < 6; times++) push();
  }).toThrow('looks like a secret');
});

test('the time is linear in the stream and in the texts, also for chosen ones', () => {
  for (const make of [
    (size: number) => [`${'a'.repeat(200)}b`, 'a'.repeat(size)],
    (size: number) => [`${'a'.repeat(200)}b`, '\\u0061'.repeat(size / 6)],
    (size: number) => [`${'ab'.repeat(size / 40)}c`, 'ab'.repeat(size / 2)],
  ])
    expect(
      growth((size) => {
        const [text = '', stream = ''] = make(size);
        return () => filtered([stream], [text]);
      }, 100_000),
    ).toBeLessThan(3);
});
