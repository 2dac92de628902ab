/** Closes what tests open: what a test or its `beforeEach` opened after this test, everything else after the file. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Begins the line that `test/support/preload.ts` prints after the last test of a file. The path follows. */
export const done = '(done) ';

type Work = () => unknown;
const ofFile: Work[] = [];
const ofTest: Work[] = [];
let isInTest = false;

/** Does the work after the last test of the file. */
export function afterFile(work: Work): void {
  ofFile.push(work);
}

/** Registers the work, and returns a function that does it earlier. It is done once. */
export function closeLater(work: Work): () => Promise<void> {
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= (async () => {
      await work();
    })();
    return closing;
  };
  (isInTest ? ofTest : ofFile).push(close);
  return close;
}

/** A new folder that is removed with its contents. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'));
  closeLater(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** For `test/support/preload.ts`, like the next two. */
export function beginTest(): void {
  isInTest = true;
}

export async function endTest(): Promise<void> {
  isInTest = false;
  await inReverse(ofTest);
}

export async function endFile(): Promise<void> {
  await inReverse(ofFile);
}

async function inReverse(works: Work[]): Promise<void> {
  for (const work of works.splice(0).reverse()) await work();
}
