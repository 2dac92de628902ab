import { describe, expect, test } from 'bun:test';
import { MaskError, renderMask } from '../../src/domain/mask.ts';

const render = (mask: unknown, data: unknown) => renderMask(mask, data);
const revealsAll = 'must not reveal all of the data: at least one character must stay hidden in all outputs';
const number = '4242424242424242';

describe('a mask that reveals all of the data is rejected:', () => {
  test.each<[string, unknown, unknown]>([
    ['a string', '{{ data }}', 'secret'],
    ['a string within other text', 'it is {{ data }}!', 'secret'],
    ['a string that is shorter than the revealed part', '{{ data | reveal_last: 9 }}', '123456789'],
    ['a string in two halves', '{{ data | first: 3 }}{{ data | last: 3 }}', 'secret'],
    ['a string that the mask contains', 'secret', 'secret'],
    ['a string that the mask contains as a name', { secret: 'hidden' }, 'secret'],
    ['strings in names and values', [{ '4242': 'x' }, '{{ data[1] }}'], ['4242', '123']],
    ['a string of the replacement character', '{{ data | hide }}', 'XXX'],
    ['a number', '{{ data }}', 12345],
    ['a boolean', '{{ data }}', true],
    ['a list', ['{{ data[0] }}', '{{ data[1] }}'], ['a', 'b']],
    ['an object', { n: '{{ data.number }}', c: '{{ data.cvc }}' }, { number, cvc: '123' }],
    ['an object with empty values', '{{ data.a }}', { a: 'x', b: '', c: null, d: [], e: {} }],
    ['numbers', [1, 2], [1, 2]],
    ['two outputs that overlap', ['{{ data | reveal_first: 10 }}', '{{ data | reveal_last: 9 }}'], number],
    ['two separate halves', { start: '{{ data | first: 3 }}', end: '{{ data | last: 3 }}' }, 'secret'],
    ['two halves in one text', '{{ data | first: 3 }} and {{ data | last: 3 }}', 'secret'],
    ['parts of a number', ['{{ data | first: 3 }}', '{{ data | last: 4 | reveal_last: 2 }}'], 12345],
    [
      'a part in the middle',
      ['{{ data | first: 2 }}{{ data | last: 2 }}', '{{ data | last: 4 | first: 2 }}'],
      'secret',
    ],
    ['characters outside the BMP', ['{{ data | first: 1 }}', '{{ data | last: 1 }}'], '😀🎉'],
  ])('%s', (_, mask, data) => {
    expect(() => render(mask, data)).toThrow(new MaskError(revealsAll));
  });

  test.each<[string, unknown, unknown, unknown]>([
    ['one that hides a character', '{{ data | last: 5 }}', 'secret', 'ecret'],
    ['one that hides a field', '{{ data.a }}', { a: 'x', b: 'y' }, 'x'],
    ['one that hides an item', ['{{ data[0] }}', 'z'], ['a', 'b'], ['a', 'z']],
    ['one that reveals an item in a name', { '4242': 'x' }, ['4242', '123'], { '4242': 'x' }],
    ['one whose list index equals the data', ['x', '{{ data | hide }}'], '1', ['x', 'X']],
    [
      'one whose outputs hide a character in the middle',
      ['{{ data | first: 3 }}', '{{ data | last: 2 }}', '{{ data | last: 4 | first: 1 }}'],
      'secret',
      ['sec', 'et', 'c'],
    ],
    [
      'one that shows the same half twice',
      ['{{ data | reveal_last: 8 }}', '{{ data | last: 8 }}'],
      number,
      ['XXXXXXXX42424242', '42424242'],
    ],
    [
      'one that shows halves of different values',
      ['{{ data.a | first: 3 }}', '{{ data.b | last: 3 }}'],
      { a: 'secret', b: 'hidden' },
      ['sec', 'den'],
    ],
    [
      'one that hides what it has revealed',
      ['{{ data | reveal_last: 9 | hide }}', '{{ data | first: 1 }}'],
      'secret',
      ['XXXXXX', 's'],
    ],
    ['text for an empty string', 'x', '', 'x'],
    ['one for an empty string', '{{ data | hide }}', '', ''],
    ['an empty list for an empty list', [], [], []],
    ['one for empty values', { a: '{{ data.a | reveal_last: 4 }}' }, { a: '' }, { a: '' }],
  ])('but not %s', (_, mask, data, masked) => {
    expect(render(mask, data)).toEqual(masked as object);
  });
});
