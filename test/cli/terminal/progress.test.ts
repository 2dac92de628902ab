import { expect, test } from 'bun:test';
import { showProgress } from '../../../src/cli/terminal/print.ts';

/** Updates the progress every second for 12 seconds, and returns what was printed. */
function printed(stderr: boolean, lines: boolean): string[] {
  const written: string[] = [];
  let time = 0;
  const progress = showProgress(
    {
      writeError: (text) => written.push(text),
      showsDelays: true,
      isTty: { stdin: false, stdout: false, stderr },
    },
    { lines, now: () => time },
  );
  for (; time <= 12_000; time += 1000) progress.update(`${time / 1000} done`);
  progress.clear();
  return written;
}

test('a terminal shows progress in one line, which is cleared at the end', () => {
  const shown = printed(true, false);
  expect(shown).toHaveLength(13);
  expect([shown[0], shown.at(-2), shown.at(-1)]).toEqual(['\r\x1b[K1 done', '\r\x1b[K12 done', '\r\x1b[K']);
});

test('elsewhere, progress is a line every five seconds, if the command prints lines', () => {
  expect(printed(false, true)).toEqual(['5 done\n', '10 done\n']);
  expect(printed(false, false)).toEqual([]);
});
