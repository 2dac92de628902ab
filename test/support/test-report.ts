/**
 * Condenses the output of `bun test`: a line for each file when it is done, then failures with their output, then the
 * reasons for skipped tests.
 */
import { done } from './cleanup.ts';
import { skipReason } from './skip.ts';

export interface Summary {
  readonly failed: number;
  /** `12 passed, 0 failed, 3 skipped` */
  readonly line: string;
}

const header = /^\S+\.test\.tsx?:$/;
const result = /^\((pass|skip|fail)\) /;
const crashed = /^✗ .*crashed/;
/** Heading of bun's second listing of failed and skipped tests. */
const repetition = /^\d+ tests? (failed|skipped):$/;
const closing = /^ *(\d+) (pass|skip|fail|error)s?$/;

/** `files` is the number of test files. */
export async function report(
  output: ReadableStream<Uint8Array>,
  files: number,
  print: (text: string) => void,
): Promise<Summary> {
  const counts = { pass: 0, skip: 0, fail: 0, error: 0 };
  const failures: string[] = [];
  const reasons = new Set<string>();
  /** Lines printed since the last result, by file. They belong to the next result. */
  const pending = new Map<string, string[]>();
  let file = '';
  let filesDone = 0;
  let ending = false;

  function addPending(line: string): void {
    const lines = pending.get(file) ?? [];
    pending.set(file, [...lines, line]);
  }

  function fail(line: string): void {
    failures.push([`${file}:`, ...(pending.get(file) ?? []), line].join('\n'));
    pending.delete(file);
    print(`${file}: ${line}\n`);
  }

  function handle(line: string): void {
    const count = closing.exec(line);
    const [, outcome] = result.exec(line) ?? [];
    if (count) counts[count[2] as keyof typeof counts] = Number(count[1]);
    else if (line.startsWith(done)) print(`${++filesDone} of ${files}: ${line.slice(done.length)}\n`);
    else if (repetition.test(line)) ending = true;
    else if (ending || (line === '' && !pending.has(file))) return;
    else if (header.test(line)) file = line.slice(0, -1);
    else if (outcome === 'fail' || crashed.test(line)) fail(line);
    else if (outcome) pending.delete(file);
    else if (line.startsWith('  ^ ')) failures.push(`${failures.pop()}\n${line}`);
    else if (skipReason(line)) reasons.add(skipReason(line) as string);
    else addPending(line);
  }

  for await (const line of linesOf(output)) handle(line);

  const failed = Math.max(counts.fail, failures.length, counts.error);
  // Errors outside of tests have no result line.
  if (failed > failures.length) {
    for (const [name, lines] of pending) {
      if (lines.some((line) => line.startsWith('# Unhandled error'))) {
        failures.push([`${name}:`, ...lines].join('\n'));
      }
    }
  }
  for (const failure of failures) print(`\n${failure}\n`);
  if (counts.skip > 0)
    print(
      `\n${[...reasons]
        .toSorted()
        .map((reason) => `skipped: ${reason}\n`)
        .join('')}`,
    );
  return { failed, line: `${counts.pass} passed, ${failed} failed, ${counts.skip} skipped` };
}

async function* linesOf(output: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of output) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}
