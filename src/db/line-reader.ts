/** Reads the lines of large files. */

const lineFeed = 0x0a;
const maxLineBytes = 64 * 1024 * 1024;

export interface FileLine {
  readonly text: string;
  /** The position in the file of the first byte of the line. */
  readonly start: number;
}

export class LineTooLong extends Error {
  constructor(path: string) {
    super(`${path}: a line is too long`);
  }
}

/** Streams the lines of a file. `from` must be the position where a line starts. Throws `LineTooLong`. */
export async function* readFileLines(path: string, from = 0): AsyncGenerator<FileLine> {
  let rest = Buffer.alloc(0);
  let start = from;
  for await (const chunk of Bun.file(path).slice(from).stream()) {
    const bytes = Buffer.concat([rest, chunk]);
    let begin = 0;
    for (let end = bytes.indexOf(lineFeed); end >= 0; end = bytes.indexOf(lineFeed, begin)) {
      yield { text: decode(bytes.subarray(begin, end)), start };
      start += end + 1 - begin;
      begin = end + 1;
    }
    rest = bytes.subarray(begin);
    if (rest.length > maxLineBytes) throw new LineTooLong(path);
  }
  if (rest.length > 0) yield { text: decode(rest), start };
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Returns an empty string if the bytes are not UTF-8. */
function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    return '';
  }
}
