/** Limits of a body from outside, in parts of any size, such as chunks. */

/** Each part takes time, also a small one. After the first ones, they must have so many bytes on average. */
const maxSmallParts = 2048;
const meanPart = 256;
/** Bytes of the buffer at first. It doubles when it is full. */
const firstLength = 4096;

export function areTooSmall(parts: number, bytes: number): boolean {
  return parts > maxSmallParts + bytes / meanPart;
}

/**
 * Reads a stream to its end into one buffer. If it has more than `limit` bytes, or too small parts, cancels it and
 * throws what `refuse` returns. Never waits in between: Bun joins the chunks of a body for which no read waits,
 * until no more arrive, and handles no other event before.
 */
export async function collect(
  stream: ReadableStream<Uint8Array>,
  limit: number,
  refuse: (problem: string) => Error,
): Promise<Uint8Array<ArrayBuffer>> {
  let received = new Uint8Array(Math.min(limit, firstLength));
  let [parts, bytes] = [0, 0];
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return received.subarray(0, bytes);
    const start = bytes;
    bytes += value.length;
    const isTooLarge = bytes > limit;
    if (isTooLarge || areTooSmall(++parts, bytes)) {
      void reader.cancel();
      throw refuse(isTooLarge ? `may have at most ${limit} bytes` : 'arrives in too many small chunks');
    }
    if (bytes > received.length) {
      const longer = new Uint8Array(Math.min(limit, Math.max(bytes, 2 * received.length)));
      longer.set(received.subarray(0, start));
      received = longer;
    }
    received.set(value, start);
  }
}
