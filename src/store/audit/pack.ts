/**
 * A shorter form of the JSON of audit entries. JSON never contains raw control characters, so these stand for what
 * entries repeat:
 *
 * - `\x02` and 22 characters: a UUID in base64url;
 * - `\x03` and a character: the first, second … UUID of the same entry once more;
 * - `\x04` to `\x1e`, and `\x1f` with a character: a phrase of the table below;
 * - `\x01` at the beginning: the rest is not packed. For text that is not JSON, which only another program can write.
 *
 * The form belongs to the row format: phrases may be added at the end, but never changed, moved or removed.
 */

/** Phrases with a code of one character. */
const frequent = [
  '{"actor":{"kind":"',
  '","id":"',
  '","application_id":"',
  '","authorized_by":"',
  '"},"operation":"',
  '"},"from":{"ip":"',
  '","user_agent":"',
  '"},"request_id":"',
  '","operation":"',
  '","result":"',
  '"},"result":"',
  '"entity":{"kind":"',
  '"resource":{"ids":["',
  '"],"container":"/',
  '/"},"decision":{"transform":"',
  '"rule":{"of":"',
  '"difference":{"',
  '":{"from":',
  ',"to":',
  '"token.read"',
  '"success"',
  'reveal',
  'application',
  'session',
  'token',
  'Mozilla/5.0 (',
  ') AppleWebKit/537.36 (KHTML, like Gecko) Chrome/',
];

/** Phrases with a code of two characters, from `\x1f!` on. */
const others = [
  'Windows NT 10.0; Win64; x64',
  'Macintosh; Intel Mac OS X 10_15_7',
  'X11; Linux x86_64',
  'Linux; Android 10; K',
  '.0.0.0 Safari/537.36',
  '.0.0.0 Mobile Safari/537.36',
  ' Edg/',
  ') AppleWebKit/605.1.15 (KHTML, like Gecko) Version/',
  ' Safari/605.1.15',
  'iPhone; CPU iPhone OS ',
  ' like Mac OS X',
  ' Mobile/15E148 Safari/604.1',
  ' Gecko/20100101 Firefox/',
  '"denied"',
  '"failed"',
  'mask',
  'redact',
  '"reason":"',
  '"permission_missing"',
  '"unauthenticated"',
  '"missing":{"permission":"',
  '"description":"',
  '"purpose":"',
  '"count":',
  '"trace_id":"',
  '"reported_by":"',
  '"container":"/',
  '"resource":{',
  '"decision":{',
  '"transform":"',
  '"permissions":',
  '"rules":',
  '"expires_at":',
  '"created_at":',
  '"name":"',
  '"metadata":',
  '"data":',
  '.create',
  '.update',
  '.delete',
  '.authorize',
  '.regenerate',
  ':create',
  ':read',
  ':update',
  ':delete',
  'operator',
  'anonymous',
  'tenant',
  'audit.heads',
  '"from":{"ip":"',
  '"from":{}',
  '"request_id":"',
  '"rule":',
  '"own","rule":',
  'ceiling',
  '"priority":',
  '"access"',
  'permission',
  'container',
  'operation',
  '127.0.0.1',
];

const oneByte = 0x04;
const twoBytes = 0x21;
const codes = new Map<string, string>([
  ...frequent.map((phrase, at) => [phrase, String.fromCharCode(oneByte + at)] as const),
  ...others.map((phrase, at) => [phrase, `\x1f${String.fromCharCode(twoBytes + at)}`] as const),
]);
const phrases = new Map([...codes].map(([phrase, code]) => [code, phrase]));

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const literals = [...codes.keys()]
  .sort((a, b) => b.length - a.length)
  .map((phrase) => phrase.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
const unpacked = new RegExp(`${uuid}|${literals.join('|')}`, 'g');
const packed = new RegExp(['\x02.{22}', '\x03.', '[\x04-\x1e]', '\x1f.'].join('|'), 'g');

/** The first of the characters that refer to an earlier UUID, and how many there are. */
const firstReference = 0x21;
const maxReferences = 90;

export function pack(text: string): string {
  if (/\p{Cc}/u.test(text)) return `\x01${text}`;
  const seen: string[] = [];
  return text.replace(unpacked, (part) => {
    const code = codes.get(part);
    if (code !== undefined) return code;
    const known = seen.indexOf(part);
    if (known >= 0) return `\x03${String.fromCharCode(firstReference + known)}`;
    if (seen.length < maxReferences) seen.push(part);
    return `\x02${Buffer.from(part.replaceAll('-', ''), 'hex').toString('base64url')}`;
  });
}

/** Returns some other text, and does not throw, if another program has changed the packed one. */
export function unpack(text: string): string {
  if (text.startsWith('\x01')) return text.slice(1);
  const seen: string[] = [];
  return text.replace(packed, (code) => {
    if (code[0] === '\x03') return seen[code.charCodeAt(1) - firstReference] ?? '';
    if (code[0] !== '\x02') return phrases.get(code) ?? '';
    const hex = Buffer.from(code.slice(1), 'base64url').toString('hex');
    const id = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
    if (seen.length < maxReferences) seen.push(id);
    return id;
  });
}
