/** Limits of JSON texts. They bound the time that parsing, checking and storing a text takes. */

const maxDepth = 32;

/** Names of fields count, too. A text of 1 MiB with this many values takes a few milliseconds to check. */
export const maxJsonValues = 10_000;

const [quote, backslash, comma, colon, openList, closeList, openObject, closeObject] = Array.from(
  '"\\,:[]{}',
  (character) => character.charCodeAt(0),
);

/**
 * Returns the first limit that a JSON text exceeds. Call it before parsing, since deep nesting makes `JSON.parse` slow. Does
 * not check the syntax.
 */
export function jsonLimitError(json: string, maxValues = maxJsonValues): string | undefined {
  let [depth, values] = [0, 1];
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === quote) at = closingQuote(json, at + 1);
    else if (code === comma || code === colon) values++;
    else if (code === openList || code === openObject) {
      depth++;
      values++;
    } else if (code === closeList || code === closeObject) depth--;
    if (depth > maxDepth) return `must not be nested deeper than ${maxDepth} levels`;
    if (values > maxValues)
      return `must have at most ${maxValues} values and field names: store parts of it separately, or store it as one string`;
  }
  return undefined;
}

/**
 * The position of the quote that ends the string that begins at `from`. Most strings have no escaped quote. For a string
 * of 1 MiB, `indexOf` saves half of the time of the request.
 */
export function closingQuote(json: string, from: number): number {
  const first = json.indexOf('"', from);
  if (first !== -1 && json.charCodeAt(first - 1) !== backslash) return first;
  let at = from;
  while (at < json.length && json.charCodeAt(at) !== quote) at += json.charCodeAt(at) === backslash ? 2 : 1;
  return at;
}
