/** Says where a text that is not JSON, or not UTF-8, has its first error. Never contains any of the text. */

const space = /[\t\n\r ]*/y;
const scalar = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const escaped = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y;
const closing: Record<string, string> = { '[': ']', '{': '}' };

/** In a longer text, the error is not searched for, because that takes tens of milliseconds for 1 MiB. */
const maxLength = 131_072;

export function jsonError(invalid: string): string {
  if (invalid.length > maxLength) return 'must be JSON in UTF-8';
  const at = errorAt(invalid);
  if (at >= invalid.length) return 'must be JSON in UTF-8: it ends too early';
  const lines = invalid.slice(0, at).split('\n');
  return `must be JSON in UTF-8: the error is in line ${lines.length}, column ${(lines.at(-1) as string).length + 1}`;
}

/** `invalid` is not valid UTF-8. Decoding replaces the invalid bytes, so the first difference is the first of them. */
export function utf8Error(invalid: Uint8Array): string {
  if (invalid.length > maxLength) return 'must be in UTF-8';
  const replaced = Buffer.from(new TextDecoder('utf-8', { ignoreBOM: true }).decode(invalid));
  const offset = invalid.findIndex((byte, at) => byte !== replaced[at]);
  return `must be in UTF-8: the byte at offset ${offset} is not valid`;
}

/** The position of the first character that cannot be there. */
function errorAt(json: string): number {
  const open: string[] = [];
  let at = 0;
  const take = (token: RegExp): boolean => {
    token.lastIndex = at;
    const isThere = token.test(json);
    if (isThere) at = token.lastIndex;
    return isThere;
  };
  const skipTo = (character: string | undefined): boolean => {
    take(space);
    if (character === undefined || json[at] !== character) return false;
    at++;
    return true;
  };
  const takeText = (): boolean => {
    if (!skipTo('"')) return false;
    while (at < json.length && json[at] !== '"') {
      if (json.charCodeAt(at) < 0x20) return false;
      if (json[at] !== '\\') at++;
      else if (!take(escaped)) return false;
    }
    return skipTo('"');
  };
  const takeName = (): boolean => open.at(-1) !== '{' || (takeText() && skipTo(':'));
  for (;;) {
    take(space);
    const first = json[at] ?? '';
    let isDone = true;
    if (closing[first] !== undefined) {
      open.push(first);
      at++;
      isDone = skipTo(closing[first]);
      if (isDone) open.pop();
    } else if (!(first === '"' ? takeText() : take(scalar))) return at;
    while (isDone && skipTo(closing[open.at(-1) ?? ''])) open.pop();
    if (isDone && (open.length === 0 || !skipTo(','))) return at;
    if (!takeName()) return at;
  }
}
