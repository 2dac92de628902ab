/**
 * Serialized JSON, in parts that follow one another: strings, or decrypted UTF-8. Stored JSON becomes part of
 * a response without being parsed, serialized or copied again.
 */
export class JsonText {
  readonly parts: readonly (string | Uint8Array)[];

  constructor(...parts: (string | Uint8Array)[]) {
    this.parts = parts;
  }

  static of(value: unknown): JsonText {
    return new JsonText(JSON.stringify(value));
  }

  /** Serializes `object` with one more field at the end. */
  static extended(object: object, name: string, value: JsonText): JsonText {
    const text = JSON.stringify(object);
    const comma = text === '{}' ? '' : ',';
    return new JsonText(`${text.slice(0, -1)}${comma}${JSON.stringify(name)}:`, ...value.parts, '}');
  }

  static list(items: readonly JsonText[]): JsonText {
    return new JsonText('[', ...items.flatMap(({ parts }, at) => (at === 0 ? parts : [',', ...parts])), ']');
  }

  get text(): string {
    let text = '';
    for (const part of this.parts) text += typeof part === 'string' ? part : utf8(part);
    return text;
  }

  /** A lower bound for `bytes` that takes no time. */
  get length(): number {
    let length = 0;
    for (const part of this.parts) length += part.length;
    return length;
  }

  /** The length in UTF-8. */
  get bytes(): number {
    let bytes = 0;
    for (const part of this.parts) bytes += typeof part === 'string' ? Buffer.byteLength(part) : part.length;
    return bytes;
  }

  value(): unknown {
    return JSON.parse(this.text);
  }

  /** Makes `JSON.stringify` embed the value instead of `{"parts": …}`. */
  toJSON(): unknown {
    return this.value();
  }
}

function utf8({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString();
}
