/** JSON as text: what is kept as text and goes out as text is not read and written again on its way. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  static of(value: unknown): JsonText {
    return new JsonText(JSON.stringify(value));
  }

  /** The same object with one field more, behind the others. */
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

  /** So that it is right wherever it ends up. */
  toJSON(): unknown {
    return this.value();
  }
}
