/**
 * Packs the JSON of audit entries into fewer bytes. JSON contains no raw control characters, so these are used as codes
 * for text that entries often contain:
 *
 * - `\x02` and 16 bytes: a UUID;
 * - `\x03` and a byte: the first (0), second (1) … UUID of the same entry again;
 * - `\x04` to `\x1e`, and `\x1f` with a character: a phrase of the tables below;
 * - `\x01` at the beginning: the rest is not packed. Only another program can write such text, which is not JSON.
 *
 * These codes are part of the row format. Phrases may be added at the end of the second table, but never changed, moved
 * or removed.
 */

/** Phrases with a code of one byte. */
const frequent = [
  '{"actor":{"kind":"application","id":"',
  '{"actor":{"kind":"session","id":"',
  '","application_id":"',
  '","authorized_by":"',
  '"},"from":{"ip":"',
  '","user_agent":"',
  '"},"request_id":"',
  '","operation":"',
  'token.read","resource":{"ids":["',
  '"],"container":"/',
  '/"},"decision":{"transform":"',
  'reveal","rule":{"of":"application","rule":',
  'reveal","rule":{"of":"session","rule":',
  ',"description":"',
  '}},"result":"success"}',
  '"}},"result":"success"}',
  '"},"result":"success"}',
  '","entity":{"kind":"',
  '","id":"',
  '"},"resource":{"ids":["',
  '","',
  '"difference":{"',
  '":{"from":',
  ',"to":',
  'Mozilla/5.0 (',
  ') AppleWebKit/537.36 (KHTML, like Gecko) Chrome/',
  '.0.0.0 Safari/537.36',
];

/** Phrases with a code of two bytes, from `\x1f!` on. */
const others = [
  'Windows NT 10.0; Win64; x64',
  'Macintosh; Intel Mac OS X 10_15_7',
  'X11; Linux x86_64',
  'Linux; Android 10; K',
  '.0.0.0 Mobile Safari/537.36',
  ') AppleWebKit/605.1.15 (KHTML, like Gecko) Version/',
  ' Safari/605.1.15',
  'iPhone; CPU iPhone OS ',
  ' like Mac OS X',
  ' Mobile/15E148 Safari/604.1',
  ' Gecko/20100101 Firefox/',
  ' Edg/',
  '{"actor":{"kind":"operator"},"result":"success","from":{},"operation":"',
  '{"actor":{"kind":"anonymous"},"from":{"ip":"',
  'application',
  'session',
  'token',
  'tenant',
  'permission',
  'container',
  '.create',
  '.update',
  '.delete',
  '.authorize',
  '.regenerate',
  '.read',
  ':create',
  ':read',
  ':update',
  ':delete',
  '"result":"denied","reason":"',
  '"result":"failed","reason":"',
  'permission_missing',
  'unauthenticated',
  '"decision":{"reason":"',
  '","missing":{"permission":"',
  '"}},"resource":{"ids":["',
  ' does not have ',
  ' in its permissions or rules',
  'this application',
  'this session',
  '"decision":{"transform":"',
  'mask","rule":{"of":"application","rule":',
  'mask","rule":{"of":"session","rule":',
  'redact","rule":{"of":"application","rule":',
  'redact","rule":{"of":"session","rule":',
  '"permissions"',
  '"rule":{"of":"',
  '"resource":{',
  '"purpose":"',
  '"trace_id":"',
  '"reported_by":"',
  '"count":',
  '"result":"success"',
  '"name":',
  '"rules":',
  '"metadata":',
  '"data":',
  '"expires_at":',
  '"priority":',
  '"transform":"',
  '"container":"/',
  '127.0.0.1',
  'audit.heads',
];

const firstFrequent = 0x04;
const firstOther = 0x21;

interface Phrase {
  readonly text: string;
  readonly code: string;
}

/** The phrases by their first two characters, longest first. */
const phrases = new Map<number, Phrase[]>();
for (const phrase of [
  ...frequent.map((text, at): Phrase => ({ text, code: String.fromCharCode(firstFrequent + at) })),
  ...others.map((text, at): Phrase => ({ text, code: `\x1f${String.fromCharCode(firstOther + at)}` })),
].sort((a, b) => b.text.length - a.text.length)) {
  const start = pairAt(phrase.text, 0);
  phrases.set(start, [...(phrases.get(start) ?? []), phrase]);
}

function pairAt(text: string, at: number): number {
  return text.charCodeAt(at) * 256 + text.charCodeAt(at + 1);
}

function phraseAt(text: string, at: number): Phrase | undefined {
  const candidates = phrases.get(pairAt(text, at));
  if (candidates === undefined) return undefined;
  for (const phrase of candidates) if (text.startsWith(phrase.text, at)) return phrase;
  return undefined;
}

const uuidLength = 36;
const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/y;
/** Maximum number of UUIDs of one entry to which `\x03` can refer. */
const maxRepeated = 256;

/** The text must be well-formed Unicode. */
export function pack(text: string): Uint8Array {
  const isAscii = /^[ -~]*$/.test(text);
  if (!isAscii && /\p{Cc}/u.test(text)) return Buffer.from(`\x01${text}`);
  // Each character of this string is one byte.
  const bytes = isAscii ? text : Buffer.from(text).toString('latin1');
  const seen: string[] = [];
  let packed = '';
  let start = 0;
  for (let at = 0; at < bytes.length; ) {
    const first = bytes.charCodeAt(at);
    const phrase = phraseAt(bytes, at);
    if (!phrase && !isUuidAt(bytes, at, first)) {
      at += 1;
      continue;
    }
    const end = at + (phrase?.text.length ?? uuidLength);
    packed += bytes.slice(start, at) + (phrase?.code ?? codeOf(bytes.slice(at, end), seen));
    start = end;
    at = end;
  }
  return Buffer.from(packed + bytes.slice(start), 'latin1');
}

const dash = 45;

function isUuidAt(text: string, at: number, first: number): boolean {
  const isHexDigit = (first >= 48 && first <= 57) || (first >= 97 && first <= 102);
  if (!isHexDigit || text.charCodeAt(at + 8) !== dash) return false;
  uuid.lastIndex = at;
  return uuid.test(text);
}

function codeOf(id: string, seen: string[]): string {
  const known = seen.indexOf(id);
  if (known >= 0) return `\x03${String.fromCharCode(known)}`;
  if (seen.length < maxRepeated) seen.push(id);
  return `\x02${Buffer.from(id.replaceAll('-', ''), 'hex').toString('latin1')}`;
}

/** Does not throw. If another program has changed the bytes, the result is a wrong text. */
export function unpack(packed: Uint8Array): string {
  const buffer = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
  if (buffer[0] === 0x01) return buffer.toString('utf8', 1);
  const bytes = buffer.toString('latin1');
  const seen: string[] = [];
  let text = '';
  let start = 0;
  for (let at = 0; at < bytes.length; at++) {
    const code = bytes.charCodeAt(at);
    if (code > 0x1f) continue;
    text += bytes.slice(start, at);
    if (code === 0x02) {
      const id = uuidOf(buffer.toString('hex', at + 1, at + 17));
      if (seen.length < maxRepeated) seen.push(id);
      text += id;
      at += 16;
    } else if (code === 0x03) text += seen[bytes.charCodeAt(++at)] ?? '';
    else if (code === 0x1f) text += others[bytes.charCodeAt(++at) - firstOther] ?? '';
    else text += frequent[code - firstFrequent] ?? '';
    start = at + 1;
  }
  text += bytes.slice(start);
  return Buffer.from(text, 'latin1').toString();
}

function uuidOf(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
