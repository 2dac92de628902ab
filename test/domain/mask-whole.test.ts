import { describe, expect, test } from 'bun:test';
import { MaskError, renderMask } from '../../src/domain/mask.ts';

const render = (mask: unknown, data: unknown) => renderMask(mask, data);
const number = '4242424242424242';

describe('a mask that must not reveal all of the data is refused:', () => {
  test.each<[string, unknown, unknown]>([
    ['a text as it is', '{{ data }}', 'secret'],
    ['a text among other text', 'it is {{ data }}!', 'secret'],
    ['a text that is shorter than what is shown of it', '{{ data | reveal_last: 9 }}', '123456789'],
    ['a text in two halves', '{{ data | first: 3 }}{{ data | last: 3 }}', 'secret'],
    ['a text that a mask spells out', 'secret', 'secret'],
    ['a text that a mask spells out in a name', { secret: 'hidden' }, 'secret'],
    ['texts in names and values', [{ '4242': 'x' }, '{{ data[1] }}'], ['4242', '123']],
    ['a text of the character that hides', '{{ data | hide }}', 'XXX'],
    ['a number', '{{ data }}', 12345],
    ['a truth', '{{ data }}', true],
    ['a list, by a list', ['{{ data[0] }}', '{{ data[1] }}'], ['a', 'b']],
    ['an object', { n: '{{ data.number }}', c: '{{ data.cvc }}' }, { number, cvc: '123' }],
    ['an object, empty parts aside', '{{ data.a }}', { a: 'x', b: '', c: null, d: [], e: {} }],
    ['numbers by numbers', [1, 2], [1, 2]],
  ])('%s', (_, mask, data) => {
    expect(() => render(mask, data)).toThrow(new MaskError('must not reveal all of the data'));
  });

  test.each<[string, unknown, unknown, unknown]>([
    ['all but one character', '{{ data | last: 5 }}', 'secret', 'ecret'],
    ['all but one of several', '{{ data.a }}', { a: 'x', b: 'y' }, 'x'],
    ['all but one of a list', ['{{ data[0] }}', 'z'], ['a', 'b'], ['a', 'z']],
    ['one of several in a name', { '4242': 'x' }, ['4242', '123'], { '4242': 'x' }],
    ['the place in a list', ['x', '{{ data | hide }}'], '1', ['x', 'X']],
    ['halves that lie apart', ['{{ data | first: 3 }}', '{{ data | last: 3 }}'], 'secret', ['sec', 'ret']],
    ['something else than nothing', 'x', '', 'x'],
    ['an empty text, of which nothing can be shown', '{{ data | hide }}', '', ''],
    ['a list of nothing', [], [], []],
    ['nothing but empty parts', { a: '{{ data.a | reveal_last: 4 }}' }, { a: '' }, { a: '' }],
  ])('but not %s', (_, mask, data, masked) => {
    expect(render(mask, data)).toEqual(masked as object);
  });
});
