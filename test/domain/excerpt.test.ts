import { describe, expect, test } from 'bun:test';
import { Excerpt, ShownParts } from '../../src/domain/mask.ts';

/** Filters such as `slice 0 3 | keep 1 2 *`. `keep` replaces all other characters, by default with X. */
function excerptOf(value: string, filters: string): Excerpt {
  return filters.split(' | ').reduce((excerpt, filter) => {
    const [name, from, to, replacement = 'X'] = filter.split(' ');
    if (name === 'slice') return excerpt.slice(Number(from), Number(to));
    if (name === 'keep') return excerpt.hideExcept(Number(from), Number(to), replacement);
    return excerpt;
  }, Excerpt.of(value));
}

const between = (text: string, from: number, to: number) => [...text].slice(from, to).join('');

describe('an excerpt has a text, of which a part is the value:', () => {
  test.each([
    ['secret', 'all', 'secret', 'secret'],
    ['', 'all', '', ''],
    ['secret', 'keep 0 0', 'XXXXXX', ''],
    ['secret', 'keep 2 4', 'XXcrXX', 'cr'],
    ['secret', 'keep 0 6', 'secret', 'secret'],
    ['secret', 'keep 0 9', 'secret', 'secret'],
    ['secret', 'keep -3 2', 'seXXXX', 'se'],
    ['secret', 'keep 4 2', 'XXXXXX', ''],
    ['secret', 'keep 6 6', 'XXXXXX', ''],
    ['', 'keep 0 4', '', ''],
    ['secret', 'keep 1 4 😀', '😀ecr😀😀', 'ecr'],
    ['secret', 'slice 0 0', '', ''],
    ['secret', 'slice 2 4', 'cr', 'cr'],
    ['secret', 'slice 2 9', 'cret', 'cret'],
    ['secret', 'slice 1 5 | slice 1 3', 'cr', 'cr'],
    ['secret', 'slice 1 6 | keep 1 3', 'XcrXX', 'cr'],
    ['secret', 'keep 2 4 | slice 1 6', 'XcrXX', 'cr'],
    ['secret', 'keep 2 4 | slice 3 6', 'rXX', 'r'],
    ['secret', 'keep 0 2 | slice 3 6', 'XXX', ''],
    ['secret', 'keep 4 6 | slice 0 3', 'XXX', ''],
    ['secret', 'keep 0 4 | keep 2 6 *', '**crXX', 'cr'],
    ['secret', 'keep 2 4 | keep 0 6', 'XXcrXX', 'cr'],
    ['secret', 'keep 0 2 😀 | slice 1 4', 'e😀😀', 'e'],
    ['😀🎉🗝', 'keep 1 2', 'X🎉X', '🎉'],
    ['😀🎉🗝', 'slice 1 3', '🎉🗝', '🎉🗝'],
    ['a😀b🎉', 'slice 1 4 | keep 0 2 *', '😀b*', '😀b'],
  ])('%j, %s: %j, of which %j', (value, filters, text, part) => {
    const excerpt = excerptOf(value, filters);
    const { from, to, offset } = excerpt;
    expect(excerpt).toMatchObject({ value, text, length: [...text].length });
    expect(String(excerpt)).toBe(text);
    expect(between(text, from, to)).toBe(part);
    expect(between(value, from + offset, to + offset)).toBe(part);
  });
});

function includeAll(value: string, excerpts: string[]): boolean {
  const shown = new ShownParts();
  for (const filters of excerpts) shown.add(excerptOf(value, filters));
  return shown.includeAllOf(value);
}

describe('excerpts together', () => {
  test.each([
    ['one is the value', 'secret', ['all']],
    ['they are adjacent', 'secret', ['slice 0 3', 'slice 3 6']],
    ['they are adjacent in another order', 'secret', ['slice 4 6', 'slice 0 2', 'slice 2 4']],
    ['they overlap', 'secret', ['keep 0 4', 'keep 2 6']],
    ['one contains the next', 'secret', ['slice 0 5', 'slice 1 2', 'slice 5 6']],
    ['one contains all others', 'secret', ['all', 'slice 1 2', 'slice 2 2']],
    ['one is an excerpt of an excerpt', 'secret', ['slice 0 3', 'slice 1 6 | slice 2 5']],
    ['both replace characters', 'secret', ['keep 0 3 | slice 0 4', 'slice 2 6 | keep 1 4']],
    ['characters have two UTF-16 code units', '😀🎉', ['slice 0 1', 'keep 1 2']],
  ])('show all of a value if %s', (_, value, excerpts) => {
    expect(includeAll(value, excerpts)).toBe(true);
  });

  test.each([
    ['there are none', 'secret', []],
    ['one is empty', 'secret', ['slice 0 0']],
    ['the first character is missing', 'secret', ['slice 1 6']],
    ['the last character is missing', 'secret', ['slice 0 5']],
    ['a character between them is missing', 'secret', ['slice 0 3', 'slice 4 6']],
    ['both show the same part', 'secret', ['slice 0 3', 'keep 0 3']],
    ['the other half is replaced after the cut', 'secret', ['slice 0 3', 'slice 3 6 | keep 0 0']],
    ['the other half is replaced before the cut', 'secret', ['slice 0 3', 'keep 0 0 | slice 3 6']],
    ['a second filter keeps the replacements', 'secret', ['keep 1 5 | keep 0 6']],
    ['a character of two UTF-16 code units is missing', '😀🎉', ['slice 0 1']],
  ])('do not show all of a value if %s', (_, value, excerpts) => {
    expect(includeAll(value, excerpts)).toBe(false);
  });

  test('are counted for each value separately', () => {
    const shown = new ShownParts();
    shown.add(excerptOf('secret', 'slice 0 3'));
    shown.add(excerptOf('hidden', 'slice 3 6'));
    expect([shown.includeAllOf('secret'), shown.includeAllOf('hidden')]).toEqual([false, false]);
    shown.add(excerptOf('secret', 'slice 3 6'));
    expect([shown.includeAllOf('secret'), shown.includeAllOf('hidden')]).toEqual([true, false]);
  });
});
