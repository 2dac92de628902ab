import { expect, test } from 'bun:test';
import { areTooSmall, collect } from '../../src/domain/received-bytes.ts';

/** A stream of parts of this size, which counts those that were read. */
function streamOf(size: number, count: number) {
  const read = { parts: 0, isCancelled: false };
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        if (++read.parts > count) controller.close();
        else controller.enqueue(new Uint8Array(size).fill(read.parts));
      },
      cancel: () => {
        read.isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { read, received: collect(stream, 1_048_576, (problem) => new Error(problem)) };
}

test('a stream is collected in the order of its parts', async () => {
  expect([...(await streamOf(2, 3).received)]).toEqual([1, 1, 2, 2, 3, 3]);
});

test.each([
  ['in too many parts of a byte', 1, 'arrives in too many small chunks', 2057],
  ['in too many parts of 100 bytes', 100, 'arrives in too many small chunks', 3361],
  ['that is too large', 65_536, 'may have at most 1048576 bytes', 17],
])('a stream %s is not read to its end', async (_, size, problem, parts) => {
  const { read, received } = streamOf(size, 1_000_000);
  await expect(received).rejects.toThrow(problem);
  expect(read).toEqual({ parts, isCancelled: true });
});

test('the parts of a megabyte may be as small as segments of slow networks', () => {
  expect(areTooSmall(Math.ceil(1_048_576 / 500), 1_048_576)).toBe(false);
});
