/**
 * Characters that could manipulate a terminal or change how text is displayed: control characters (U+0000 to U+001F,
 * U+007F to U+009F), bidirectional controls, and other invisible or unassigned characters. The joiners U+200C and
 * U+200D are not escaped, because emoji and several scripts need them.
 */
const invisible = /[^\P{C}\u200c\u200d]/gu;

/** Escapes as `\u{202e}`, for a value on one line. */
export function escapeText(text: string): string {
  return text.replace(invisible, asEscape);
}

/** Like `escapeText`, but leaves line feeds and tabs. */
export function escapeLines(text: string): string {
  return text.replace(invisible, (character) => (isLayout(character) ? character : asEscape(character)));
}

/** Escapes JSON text as `\u202e`, so that it parses to the same value. Leaves line feeds and tabs. */
export function escapeJson(json: string): string {
  return json.replace(invisible, (character) =>
    isLayout(character) ? character : character.split('').map(asUnit).join(''),
  );
}

/** `U+202E` */
export function codePoint(character: string): string {
  return `U+${hex(character.codePointAt(0) as number).toUpperCase()}`;
}

function asEscape(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`;
}

function asUnit(unit: string): string {
  return `\\u${hex(unit.charCodeAt(0))}`;
}

function isLayout(character: string): boolean {
  return character === '\n' || character === '\t';
}

function hex(number: number): string {
  return number.toString(16).padStart(4, '0');
}
