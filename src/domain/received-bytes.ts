/** Limits of a body that somebody else sends, in parts of any size, such as chunks. */

/** Each part takes time, however small it is. After the first ones, they must have so many bytes on average. */
const maxSmallParts = 2048;
const meanPart = 256;

export function areTooSmall(parts: number, bytes: number): boolean {
  return parts > maxSmallParts + bytes / meanPart;
}

/**
 * Reads a stream to its end into one buffer. If it has more than `limit` bytes, or too small parts, cancels it and
 * throws what `refuse` returns.
 */
export async function collect(
  stream: ReadableStream<Uint8Array>,
  limit: number,
  refuse: (problem: string) => Error,
): Promise<Uint8Array<ArrayBuffer>> {
  const received = new Bun.ArrayBufferSink();
  received.start({ asUint8Array: true });
  let [parts, bytes] = [0, 0];
  const reader = stream.getReader();
  for (;;) {
    // Bun joins all that arrives in one turn of the event loop, unless a read waits for it: then it is read by the chunk.
    await new Promise(setImmediate);
    const { done, value } = await reader.read();
    if (done) return received.end() as Uint8Array<ArrayBuffer>;
    bytes += value.length;
    const isTooLarge = bytes > limit;
    if (isTooLarge || areTooSmall(++parts, bytes)) {
      void reader.cancel();
      throw refuse(isTooLarge ? `may have at most ${limit} bytes` : 'arrives in too many small chunks');
    }
    received.write(value);
  }
}
