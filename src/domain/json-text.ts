/** Serialized JSON. Stored JSON is copied into responses without parsing and serializing it again. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  static of(value: unknown): JsonText {
    return new JsonText(JSON.stringify(value));
  }

  /** Serializes `object` with one more field at the end. */
  static extended(object: object, name: string, value: JsonText): JsonText {
    const text = JSON.stringify(object);
    const comma = text === '{}' ? '' : ',';
    return new JsonText(`${text.slice(0, -1)}${comma}${JSON.stringify(name)}:${value.text}}`);
  }

  static list(parts: readonly JsonText[]): JsonText {
    return new JsonText(`[${parts.map(({ text }) => text).join(',')}]`);
  }

  value(): unknown {
    return JSON.parse(this.text);
  }

  /** Makes `JSON.stringify` embed the value instead of `{"text": …}`. */
  toJSON(): unknown {
    return this.value();
  }
}
