/**
 * Characters that act on a screen instead of being shown on it: control characters (U+0000 to U+001F, U+007F to
 * U+009F), bidirectional controls, and other invisible or unassigned ones. The joiners of emoji and of several scripts
 * are left alone.
 */
const invisible = /[^\P{C}\u200c\u200d]/gu;

/** For a value that is shown in one line: `\u{202e}`. */
export function escapeText(text: string): string {
  return text.replace(invisible, asEscape);
}

/** The same for several lines: line feeds and tabs stay. */
export function escapeLines(text: string): string {
  return text.replace(invisible, (character) => (isLayout(character) ? character : asEscape(character)));
}

/** Escapes them in JSON text as `\u202e`, so that it means the same. Line feeds between values stay. */
export function escapeJson(json: string): string {
  return json.replace(invisible, (character) =>
    isLayout(character) ? character : character.split('').map(asUnit).join(''),
  );
}

/** A code point as people write it: `U+202E`. */
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
