import { heapStats } from 'bun:jsc';
import { describe, expect, test } from 'bun:test';
import { Mask, MaskError, renderMask, templateProblem } from '../../src/domain/mask.ts';
import { growth } from '../support/growth.ts';

const render = (mask: unknown, data: unknown) => renderMask(mask, data);

function errorOf(mask: unknown, data: unknown): string {
  try {
    return `gave ${JSON.stringify(renderMask(mask, data))}`;
  } catch (error) {
    if (error instanceof MaskError) return error.message;
    throw error;
  }
}

function errorsOf(mask: unknown): string[] {
  return Mask.safeParse(mask).error?.issues.map(({ message }) => message) ?? [];
}

const number = '4242424242424242';

describe('a filter', () => {
  test.each<[string, unknown, unknown]>([
    ['{{ data | reveal_last: 4 }}', number, 'XXXXXXXXXXXX4242'],
    ['{{ data | reveal_last: 4, "*" }}', number, '************4242'],
    ['{{ data | reveal_last: 0 }}', number, 'X'.repeat(16)],
    ['{{ data | reveal_last }}', number, 'X'.repeat(16)],
    ['{{ data.cvc | reveal_last: 99 }}', { number, cvc: '123' }, '123'],
    ['{{ data | reveal_first: 6 }}', number, '424242XXXXXXXXXX'],
    ['{{ data | reveal_first: 6, "•" }}', number, '424242••••••••••'],
    ['{{ data | reveal_first: 0 }}', number, 'X'.repeat(16)],
    ['{{ data | reveal_first }}', number, 'X'.repeat(16)],
    ['{{ data.cvc | reveal_first: 99 }}', { number, cvc: '123' }, '123'],
    ['{{ data | hide }}', 'secret', 'XXXXXX'],
    ['{{ data | hide: "#" }}', 'secret', '######'],
    ['{{ data | hide: "😀" }}', 'ab', '😀😀'],
    ['{{ data | last: 4 }}', number, '4242'],
    ['{{ data | last }}', 'secret', 't'],
    ['{{ data | last: 0 }}', 'secret', ''],
    ['{{ data.cvc | last: 99999999 }}', { number, cvc: '123' }, '123'],
    ['{{ data | first: 3 }}', 'secret', 'sec'],
    ['{{ data | first }}', 'secret', 's'],
    ['{{ data | first: 0 }}', 'secret', ''],
    ['{{ data.cvc | first: 99999999 }}', { number, cvc: '123' }, '123'],
    ['{{ data | first: 8 | last: 4 | reveal_first: 1 }}', '12345678abcdefgh', '5XXX'],
  ])('%s of %j gives %j', (mask, data, masked) => {
    expect(render(mask, data)).toEqual(masked);
  });

  test.each<[string, unknown, unknown]>([
    ['a number', 12345, 'XXX45'],
    ['a fraction', -1.25, 'XXX25'],
    ['a boolean', true, 'XXue'],
    ['nothing', null, ''],
    ['characters of two UTF-16 code units', '😀😀😀😀', 'XX😀😀'],
    ['a combining accent', 'ae\u0301', 'Xe\u0301'],
    ['right to left', 'שלום', 'XXום'],
    ['white space', 'a \n\t', 'XX\n\t'],
  ])('accepts %s', (_, value, masked) => {
    expect(render('{{ data.value | reveal_last: 2 }}', { value, other: 'hidden' })).toBe(masked as string);
  });

  const count = 'cannot be rendered: the number of characters must be a whole number';
  const replacement = 'cannot be rendered: the replacement must be one character';
  test.each([
    ['{{ data | last: -1 }}', count],
    ['{{ data | last: 1.5 }}', count],
    ['{{ data | last: "2" }}', count],
    ['{{ data | first: -1 }}', count],
    ['{{ data | reveal_last: "x" }}', count],
    ['{{ data | reveal_first: -3 }}', count],
    ['{{ data | reveal_last: 99999999999999999999 }}', count],
    ['{{ data | hide: "" }}', replacement],
    ['{{ data | hide: "ab" }}', replacement],
    ['{{ data | hide: "e\u0301" }}', replacement],
    ['{{ data | reveal_last: 4, "" }}', replacement],
    ['{{ data | reveal_first: 4, 10 }}', replacement],
  ])('is rejected as %s', (mask, message) => {
    expect(errorOf(mask, 'secret')).toBe(message);
  });
});

describe('a mask', () => {
  const data = { number, holder: { name: 'Ada' }, 'two words': 'x', list: ['p', 'q'], größe: 'XL', n: null };
  test.each<[unknown, unknown]>([
    ['{{ data.holder.name }}', 'Ada'],
    ['{{ data.holder["name"] }}', 'Ada'],
    ["{{ data['two words'] }}", 'x'],
    ['{{ data.list[1] }}', 'q'],
    ['{{ data.list[-1] }}', 'q'],
    ['{{ data.list.first }}{{ data.list.size }}', 'p2'],
    ['{{ data.größe }}', 'XL'],
    ['{{data.holder.name|first}}', 'A'],
    ['a {{- data.holder.name -}} b', 'aAdab'],
    ['{{ data.holder.name\n  | first }}', 'A'],
    ['[{{ data.n }}]', '[]'],
    ['{{ "text" }} {{ 5 }}', 'text 5'],
    ['{ data } and }} are text', '{ data } and }} are text'],
    ['', ''],
    [[], []],
    [{}, {}],
    [
      {
        card: ['{{ data.number | last: 4 }}', 1, true, null],
        '{{ data.number }}': 'the name is no template',
      },
      { card: ['4242', 1, true, null], '{{ data.number }}': 'the name is no template' },
    ],
  ])('%j is rendered', (mask, masked) => {
    expect(errorsOf(mask)).toEqual([]);
    expect(render(mask, data)).toEqual(masked);
  });

  const missing = (name: string) => `cannot be rendered: \`${name}\` does not exist`;
  const invalid = 'cannot be rendered: it is not a valid output: use the form {{ data.name | filter: 4 }}';
  const parts = 'cannot be rendered: it outputs a whole list or object: output one of its fields';
  const tags = 'cannot be rendered: tags are not supported: use outputs such as {{ data | hide }}';
  const filters =
    'cannot be rendered: unknown filter: use one of reveal_last, reveal_first, hide, last, first';
  test.each([
    ['{{ data.nope }}', missing('data.nope')],
    ['{{ other }}', missing('other')],
    ['{{ data[data.number] }}', invalid],
    ['{{ data.list[data.which] }}', invalid],
    ['{{ data.number | reveal_last: data.shown }}', invalid],
    ['{{ data.number | reveal_last: 4, data.with }}', invalid],
    ['{{ data.number | hide: nil }}', invalid],
    ['{{ data.list[7] }}', missing('data.list.7')],
    ['{{ data }}', parts],
    ['{{ data.list }}', parts],
    ['{{ data.holder | hide }}', parts],
    ['{{ data.list | last: 4 }}', parts],
    ['{{ data.holder.name | last: data.nope }}', invalid],
    ['{{ data.constructor }}', missing('data.constructor')],
    ['{{ data.__proto__ }}', missing('data.__proto__')],
    ['{{ data["__proto__"].toString }}', missing('data.__proto__')],
    ['{{ data.list.map }}', missing('data.list.map')],
    ['{{ toString }}', missing('toString')],
    ['{{ globalThis }}', missing('globalThis')],
    ['{% if data %}x{% endif %}', tags],
    ['{% for x in data %}{{ x }}{% endfor %}', tags],
    ['{% assign x = data %}', tags],
    ['{% raw %}{{ data }}{% endraw %}', tags],
    ['{% include "x" %}', tags],
    ['{% # comment %}', tags],
    ['{{ data.number | upcase }}', filters],
    ['{{ data.number | constructor }}', filters],
    ['{{ data.number | __proto__ }}', filters],
    ['{{ data.number | json }}', filters],
    ['{{ data.number', invalid],
    ['{{ data["number }}', invalid],
    ['{{ }}', invalid],
    ['{{ data == data }}', invalid],
    ['{% unclosed', tags],
    ['{{ data | }}', invalid],
    ['{{ data | hide | }}', invalid],
    ['{{ data, 4 }}', invalid],
    ['{{ data.number "x" }}', invalid],
    ['{{ data.number | last 4 }}', invalid],
    ['{{ data.number | last: 4 5 }}', invalid],
    ['{{ data.number | last: a: 4 }}', invalid],
    ['{{ data.number | hide: "\\"" }}', invalid],
    ['{{ (1..9) }}', invalid],
  ])('%j is rejected', (mask, message) => {
    expect(errorOf(mask, data)).toBe(message);
  });

  test('is rejected again on the second call', () => {
    expect([errorOf('{{ data, 5 }}', 'x'), errorOf('{{ data, 5 }}', 'x')]).toEqual([invalid, invalid]);
  });

  test.each<[string, unknown, string[]]>([
    ['a number', 5, ['must be a string, an object or a list']],
    ['a boolean', true, ['must be a string, an object or a list']],
    ['null', null, ['must be a string, an object or a list']],
    ['absent', undefined, ['must be a string, an object or a list']],
    ['4,096 characters as JSON', 'x'.repeat(4094), []],
    ['4,097 characters as JSON', 'x'.repeat(4095), ['must have at most 4096 characters as JSON']],
    ['4,096 characters of two units each', '😀'.repeat(4094), []],
    ['4,097 of them', '😀'.repeat(4095), ['must have at most 4096 characters as JSON']],
    ['a very long list', new Array(500_000).fill(0), ['must have at most 4096 characters as JSON']],
    ['8 levels', [[[[[[[['x']]]]]]]], []],
    ['9 levels', [[[[[[[[['x']]]]]]]]], ['must not be nested deeper than 8 levels']],
    ['9 levels, none in the last', [[[[[[[[{}]]]]]]]], ['must not be nested deeper than 8 levels']],
    ['a list with one deep item', [1, [[[[[[[[1]]]]]]]], 2], ['must not be nested deeper than 8 levels']],
    [
      'too long and too deep, reported as too long',
      JSON.parse(`${'['.repeat(3000)}${']'.repeat(3000)}`),
      ['must have at most 4096 characters as JSON'],
    ],
    ['a lone surrogate', ['\ud800'], ['must be well-formed Unicode throughout']],
  ])('is validated: %s', (_, mask, expected) => {
    expect(errorsOf(mask)).toEqual(expected);
  });

  test('may contain an entry named __proto__, as may the data', () => {
    const mask = JSON.parse('{"__proto__": "{{ data.__proto__ }}", "polluted": "{{ data.x | hide }}"}');
    const masked = render(mask, JSON.parse('{"__proto__": "own", "x": "y"}'));
    expect(JSON.stringify(masked)).toBe('{"__proto__":"own","polluted":"X"}');
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  test('does not call methods of the data', () => {
    const data = { toString: 'a', valueOf: 'b', toLiquid: 'c', toJSON: 'd', inner: 'e' };
    expect(render('{{ data.toLiquid }}{{ data.valueOf | hide }}{{ data.toJSON }}', data)).toBe('cXd');
  });
});

const revealsAll = 'must not reveal all of the data: at least one character must stay hidden in all outputs';

describe('limits:', () => {
  test('the searches for parts of the data in the output read at most 4 MiB', () => {
    const text = (parts: number) => Array.from({ length: parts }, (_, n) => `part ${n};`);
    const mask = '{{ data[0] }}';
    const tooMany = 'reveals too many parts of the data';
    expect(errorOf(mask, [text(500).join(''), ...text(500)])).toBe(revealsAll);
    expect(errorOf(mask, [text(1000).join(''), ...text(1000)])).toBe(tooMany);
    expect(errorOf(mask, [text(600).join(''), 'hidden', ...text(600)])).toContain('gave');
    expect(errorOf([mask, ...text(90)], ['x', ...text(90), ...text(90)])).toBe(revealsAll);
  });

  test('a part that occurs often in the data is searched only once', () => {
    const often = new Array(600).fill('part');
    expect(errorOf('part', often)).toBe(revealsAll);
    expect(errorOf('all parts', often)).toBe(revealsAll);
  });

  const memory = 'cannot be rendered: its filters process more than 100000 characters';
  test('the filters of a mask process at most 100,000 characters', () => {
    const long = 'x'.repeat(50_000);
    expect(render('{{ data | last: 1 }}{{ data | first: 1 }}', `${long}`)).toBe('xx');
    expect(errorOf('{{ data | last: 1 }}{{ data | first: 2 | hide }}', long)).toBe(memory);
    expect(errorOf(['{{ data | last }}', { a: '{{ data | last }}', b: '{{ data | hide }}' }], long)).toBe(
      memory,
    );
    for (const filter of ['reveal_last: 1', 'reveal_first: 1', 'hide', 'last', 'first'])
      expect(errorOf(`{{ data | ${filter} }}`, `${long}${long}x`)).toBe(memory);
  });

  test('characters are counted, not their UTF-16 code units', () => {
    expect(render('{{ data | last: 1 }}', `${'😀'.repeat(99_999)}a`)).toBe('a');
    expect(render('{{ data | hide: "😀" }}', 'x'.repeat(65_536))).toBe('😀'.repeat(65_536));
  });

  test('the limit applies to each mask separately', () => {
    const long = 'x'.repeat(75_000);
    for (let n = 0; n < 3; n++) expect(render('{{ data | last: 2 }}', long)).toBe('xx');
  });

  const size = 'must not render to more than 65536 characters';
  test('a masked value has at most 65,536 characters', () => {
    const half = { a: 'x'.repeat(32_768), b: 'hidden' };
    expect(render(['{{ data.a }}', '{{ data.a }}'], half)).toEqual([half.a, half.a]);
    expect(errorOf(['{{ data.a }}', '{{ data.a }}', 'x'], half)).toBe(size);
    expect(errorOf('{{ data.a }}{{ data.a }}x', half)).toBe(size);
  });

  test('a huge output is rejected before it is built', () => {
    const before = process.memoryUsage.rss();
    expect(errorOf('{{data}}'.repeat(500), 'x'.repeat(1_000_000))).toBe(size);
    expect(process.memoryUsage.rss() - before).toBeLessThan(200_000_000);
  });

  test('more templates than the cache can store are rendered', () => {
    const long = 'x'.repeat(4000);
    for (let round = 0; round < 2; round++)
      for (let n = 0; n < 40; n++)
        expect(render(`${n}: {{ data | hide }}${long}`, 'ab')).toBe(`${n}: XX${long}`);
  });

  test('the cache of parsed templates has a limit on memory', () => {
    const outputs = '{{data|hide}}'.repeat(99);
    const heapSize = () => {
      Bun.gc(true);
      return heapStats().heapSize;
    };
    const before = heapSize();
    for (let n = 0; n < 150; n++) expect(templateProblem(`${n}${outputs}`)).toBeUndefined();
    expect(heapSize() - before).toBeLessThan(14_000_000);
  });

  test('a mask has at most 100 outputs', () => {
    const outputs = (count: number) => ['{{data}}'.repeat(count - 1), { a: '{{data}}' }];
    expect([errorsOf(outputs(100)), errorsOf(outputs(101))]).toEqual([[], ['must have at most 100 outputs']]);
  });

  const b = (length: number) => 'b'.repeat(length);
  test('the search for parts of the data in the output takes linear time', () => {
    const work = (size: number) => {
      const parts = Array.from({ length: 5 }, (_, n) => `${b(size + n)}a${b(size)}`);
      const data = [`${b(3 * size)}a${b(2 * size)}`, ...parts];
      return () => errorOf('{{ data[0] }}', data);
    };
    expect(work(1000)()).toBe(revealsAll);
    expect(growth(work, 800)).toBeLessThan(3);
  });
});
