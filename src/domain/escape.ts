/** Scripts whose letters are shaped by the zero-width joiner and non-joiner. */
const joiningScripts =
  'Arabic Bengali Devanagari Gujarati Gurmukhi Kannada Khmer Malayalam Mongolian Myanmar Oriya Sinhala Syriac Tamil Telugu'
    .split(' ')
    .map((script) => `\\p{Script=${script}}`)
    .join('');

/** Invisible characters that change how a visible one is drawn: in an emoji, or after a letter of a joining script. */
const shaping = [
  '(?<=[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\u{fe0f}])\\u{200d}',
  '(?<=\\p{Extended_Pictographic})[\\u{fe0e}\\u{fe0f}]',
  '(?<=[0-9#*])\\u{fe0f}(?=\\u{20e3})',
  `(?<=[${joiningScripts}])[\\u{200c}\\u{200d}]`,
];

/**
 * Characters that are invisible or change how other text is displayed: control characters, line and paragraph
 * separators, bidirectional controls, zero-width and unassigned characters. With them, two different names can look
 * the same.
 */
const invisible = new RegExp(
  `(?!${shaping.join('|')})[\\p{C}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}]`,
  'gu',
);

/** Escapes invisible characters as `\u{202e}`, for a value on one line. */
export function escapeText(text: string): string {
  return text.replace(invisible, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

/** Like `escapeText`, but leaves line feeds and tabs. */
export function escapeLines(text: string): string {
  return text.replace(invisible, (character) => (isLayout(character) ? character : escapeText(character)));
}

/** Escapes invisible characters in JSON as `\u202e`, so it parses to the same value. Leaves line feeds and tabs. */
export function escapeJson(json: string): string {
  return json.replace(invisible, (character) =>
    isLayout(character) ? character : character.split('').map(asUnit).join(''),
  );
}

/**
 * The first `max` code points of the text, with U+FFFD for half a surrogate pair. Cuts every text that is stored or sent:
 * receivers of the audit log reject half a pair.
 */
export function cut(text: string, max: number): string {
  return [...text.slice(0, 2 * max)].slice(0, max).join('').toWellFormed();
}

/** The character as `U+202E`. */
export function codePoint(character: string): string {
  return `U+${hex(character.codePointAt(0) as number).toUpperCase()}`;
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
