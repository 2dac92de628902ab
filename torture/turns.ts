/**
 * The longest turn of a node's event loop, in processor time of its main thread: everyone else waits as long. The module
 * preloads itself into the node, and both processes map the same file.
 */
import { dlopen, ptr } from 'bun:ffi';
import { writeFileSync } from 'node:fs';

const fileVariable = 'TORTURE_TURNS_FILE';
/** Positions in the file: milliseconds of the longest turn, number of turns, and the length of the body to be parsed. */
const [longest, count, parsed] = [0, 1, 2] as const;

export class Turns {
  readonly #shared: Float64Array;
  /** Settings of the node that is to be measured. */
  readonly env: Record<string, string>;

  constructor(file: string) {
    writeFileSync(file, new Uint8Array(24));
    this.#shared = mapped(file);
    this.env = { [fileVariable]: file, BUN_OPTIONS: `--preload ${import.meta.filename}` };
  }

  /** Milliseconds of the longest turn during `work`, apart from one `JSON.parse` of a text of this length. */
  async during(work: () => Promise<unknown>, parsedLength = 0): Promise<number> {
    await this.#pass(2);
    this.#shared[parsed] = parsedLength;
    this.#shared[longest] = 0;
    await work();
    await this.#pass(3);
    return this.#shared[longest] as number;
  }

  /** Waits until the node has completed more turns. */
  async #pass(turns: number): Promise<void> {
    const end = (this.#shared[count] as number) + turns;
    for (let look = 0; (this.#shared[count] as number) < end; look++) {
      if (look > 100_000) throw new Error('the node has ended, or does not measure its turns');
      await Bun.sleep(look < 1000 ? 0 : 1);
    }
  }
}

function mapped(file: string): Float64Array {
  const bytes = Bun.mmap(file, { shared: true });
  return new Float64Array(bytes.buffer, bytes.byteOffset, 3);
}

/** Runs in the node until it is stopped. Until then, the node never sleeps. */
function measure(shared: Float64Array): void {
  const libc = dlopen('libc.so.6', { clock_gettime: { args: ['i32', 'ptr'], returns: 'i32' } });
  const time = new BigInt64Array(2);
  const pointer = ptr(time);
  const ofThread = 3;
  const now = () => {
    libc.symbols.clock_gettime(ofThread, pointer);
    return Number(time[0]) * 1e3 + Number(time[1]) / 1e6;
  };
  let [began, isStopping] = [now(), false];
  process.once('SIGTERM', () => {
    isStopping = true;
  });
  const parse = JSON.parse;
  JSON.parse = (text: string, reviver?: Parameters<typeof parse>[1]) => {
    if (text.length === 0 || text.length !== shared[parsed]) return parse(text, reviver);
    shared[parsed] = 0;
    const before = now();
    try {
      return parse(text, reviver);
    } finally {
      began += now() - before;
    }
  };
  const turn = () => {
    const at = now();
    if (at - began > (shared[longest] as number)) shared[longest] = at - began;
    shared[count] = (shared[count] as number) + 1;
    began = at;
    if (!isStopping) setImmediate(turn);
  };
  turn();
}

const file = process.env[fileVariable];
if (file !== undefined) measure(mapped(file));
