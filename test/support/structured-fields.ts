/**
 * Structured field values (RFC 9651). Each function returns the canonical text of a value, or undefined if the value is
 * not valid.
 */
type Parse = (text: string) => string | undefined;

const key = /[a-z*][a-z0-9_.*-]*/y;
const bareItems: readonly [pattern: RegExp, isValid?: (text: string) => boolean][] = [
  [/-?[0-9]{1,12}\.[0-9]{1,3}(?![0-9])/y, (text) => !/\.[0-9]+0$/.test(text) || /\.0$/.test(text)],
  [/-?[0-9]{1,15}(?![0-9.])/y],
  [/"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"/y],
  [/%"(?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*"/y, isUtf8],
  [/[A-Za-z*][!#$%&'*+.^_`|~:/0-9A-Za-z-]*/y],
  [/:[A-Za-z0-9+/]*={0,2}:/y, isBase64],
  [/@-?[0-9]{1,15}(?![0-9.])/y],
  [/\?[01]/y],
];

function isUtf8(text: string): boolean {
  try {
    decodeURIComponent(text.slice(2, -1));
    return true;
  } catch {
    return false;
  }
}

function isBase64(text: string): boolean {
  const encoded = text.slice(1, -1);
  return Buffer.from(encoded, 'base64').toString('base64') === encoded;
}

class Invalid extends Error {}

class Reader {
  #at = 0;
  readonly text: string;
  constructor(text: string) {
    this.text = text.replace(/^ +| +$/g, '');
  }
  get isAtEnd(): boolean {
    return this.#at === this.text.length;
  }
  take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [match] = pattern.exec(this.text) ?? [];
    this.#at += match?.length ?? 0;
    return match;
  }
  need(pattern: RegExp): string {
    const match = this.take(pattern);
    if (match === undefined) throw new Invalid();
    return match;
  }

  bareItem(): string {
    for (const [pattern, isValid] of bareItems) {
      const match = this.take(pattern);
      if (match !== undefined && (isValid?.(match) ?? true)) return match;
      if (match !== undefined) break;
    }
    throw new Invalid();
  }

  parameters(): string {
    let text = '';
    while (this.take(/; */y) !== undefined) {
      const name = this.need(key);
      text += `;${name}${this.take(/=/y) === undefined ? '' : `=${this.bareItem()}`}`;
    }
    return text;
  }

  item(): string {
    return this.bareItem() + this.parameters();
  }

  /** An item or an inner list. */
  member(): string {
    if (this.take(/\(/y) === undefined) return this.item();
    const items: string[] = [];
    for (;;) {
      this.take(/ */y);
      if (this.take(/\)/y) !== undefined) return `(${items.join(' ')})${this.parameters()}`;
      items.push(this.item());
      if (this.take(/(?=[ )])/y) === undefined) throw new Invalid();
    }
  }

  members(one: () => string): string {
    const members: string[] = [];
    while (!this.isAtEnd) {
      members.push(one());
      if (this.isAtEnd) break;
      this.need(/[ \t]*,[ \t]*/y);
      if (this.isAtEnd) throw new Invalid();
    }
    return members.join(', ');
  }
}

function parser(read: (reader: Reader) => string): Parse {
  return (text) => {
    try {
      const reader = new Reader(text);
      const value = read(reader);
      return reader.isAtEnd ? value : undefined;
    } catch (error) {
      if (error instanceof Invalid) return undefined;
      throw error;
    }
  };
}

export const parseItem = parser((reader) => reader.item());
export const parseList = parser((reader) => reader.members(() => reader.member()));
export const parseDictionary = parser((reader) =>
  reader.members(() => {
    const name = reader.need(key);
    return reader.take(/=/y) === undefined ? name + reader.parameters() : `${name}=${reader.member()}`;
  }),
);
