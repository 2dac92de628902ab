/**
 * The newest positions of the database that this node has seen, in a file so that it knows them after a restart, and
 * those that other nodes have seen. See domain/database-position.ts.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { Config } from '../config/settings.ts';
import { Unreachable } from '../db/postgres/postgres-errors.ts';
import { createFolder } from '../db/sqlite/file-ownership.ts';
import {
  isBehind,
  isPosition,
  type KnownPositions,
  type Position,
  withPosition,
} from '../domain/database-position.ts';
import { type Log, makeLog } from '../telemetry/log.ts';

/** Milliseconds that an answer of other nodes is used, and that they have for it. */
const [answerLifetime, answerTimeout] = [5000, 500];

export function positionFile({ dataDir }: Pick<Config, 'dataDir'>): string {
  return join(dataDir, 'database-position.json');
}

interface Stored {
  /** The one that was seen last comes first. */
  readonly positions: readonly Position[];
  /** URLs of the other nodes. */
  readonly nodes: readonly string[];
}

export interface PositionMemory extends KnownPositions {
  /** The newest position of the database that is used. Undefined before the first connection. */
  current(): Position | undefined;
  /** The host and port of the last connection. */
  host(): string | undefined;
  setNodes(urls: readonly string[]): void;
}

export function positionMemory(file: string, log: Log, now: () => number, witness?: Witness): PositionMemory {
  let stored = read(file, log);
  let current: Position | undefined;
  let host: string | undefined;
  let asked: { readonly at: number; readonly answers: Promise<Position[]> } | undefined;
  let mayWarn = true;

  function store(next: Stored): void {
    stored = next;
    try {
      createFolder(dirname(file));
      const temporary = `${file}.${process.pid}`;
      writeFileSync(temporary, `${JSON.stringify(stored)}\n`, { mode: 0o600 });
      renameSync(temporary, file);
    } catch (error) {
      if (mayWarn) log.warn('could not store the position of the database', { file, error });
      mayWarn = false;
    }
  }

  async function askOthers(): Promise<Position[]> {
    if (!asked || Math.abs(now() - asked.at) >= answerLifetime)
      asked = { at: now(), answers: Promise.all(stored.nodes.map(askNode)).then((each) => each.flat()) };
    return asked.answers;
  }

  return {
    current: () => current,
    host: () => host,
    newest: async () => {
      const [witnessed, answers] = await Promise.all([witness?.newest() ?? [], askOthers()]);
      return [...stored.positions, ...witnessed, ...answers];
    },
    ask: async (urls) => {
      const others = urls.filter((url) => !stored.nodes.includes(url));
      return (await Promise.all(others.map(askNode))).flat();
    },
    saw: ({ installation, era, timeline, beat }, at) => {
      const position = { installation, era, timeline, beat };
      if (host !== undefined && at !== host)
        log.info('connected to another database server', { host: at, ...position });
      [current, host] = [position, at];
      void witness?.saw(position);
      const [first] = stored.positions;
      if (first?.installation === position.installation && !isBehind(first, position)) return;
      store({ ...stored, positions: withPosition(stored.positions, position) });
    },
    setNodes: (nodes) => {
      if (nodes.join() !== stored.nodes.join()) store({ ...stored, nodes });
    },
  };
}

/** For commands: remembers nothing, and asks other nodes once. */
export function knownPositions(config: Config): KnownPositions {
  const log = makeLog({ level: 'error' });
  const now = () => 0;
  return { ...positionMemory(positionFile(config), log, now, witnessOf(config, log, now)), saw: () => {} };
}

/** Undefined without one. SQLite needs none: its database is one file. */
export function witnessOf(
  { databaseUrl, witness, witnessOptional }: Config,
  log: Log,
  now: () => number,
): Witness | undefined {
  if (witness === undefined || databaseUrl.startsWith('sqlite:')) return undefined;
  return witnessFile(witness, witnessOptional, log, now);
}

/** What another node has seen. Empty if it does not answer. */
export async function askNode(url: string): Promise<Position[]> {
  try {
    const response = await fetch(new URL('/livez', url), { signal: AbortSignal.timeout(answerTimeout) });
    const { database } = (await response.json()) as { database?: Position };
    return isPosition(database) ? [database] : [];
  } catch {
    return [];
  }
}

function read(file: string, log: Log): Stored {
  const nothing = { positions: [], nodes: [] };
  try {
    const { positions, nodes } = JSON.parse(readFileSync(file, 'utf8')) as Stored;
    return { positions: positions.filter(isPosition), nodes: nodes.filter((url) => URL.canParse(url)) };
  } catch (error) {
    if (!/^(ENOENT|ENOTDIR)$/.test((error as NodeJS.ErrnoException).code ?? ''))
      log.warn('could not read the position of the database', { file, error });
    return nothing;
  }
}

/** Milliseconds between two reads, and between two writes. */
const witnessInterval = 5000;

/**
 * The newest positions of the database in a file that all nodes share, on another machine than the database. From it, a
 * node that has never seen the database learns that the server it finds is behind, even if no other node answers.
 */
export interface Witness {
  /**
   * Throws `Unreachable` if the file cannot be read and this process has not read it before, unless it is optional.
   * Otherwise a failure is logged, and the positions that were read last are returned.
   */
  newest(): Promise<readonly Position[]>;
  /** Writes the position, at most every five seconds. A failure is logged. */
  saw(position: Position): Promise<void>;
}

export function witnessFile(path: string, isOptional: boolean, log: Log, now: () => number): Witness {
  let known: readonly Position[] | undefined;
  let [readAt, writtenAt] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let isUsable = true;

  function report(error?: unknown): void {
    if (error !== undefined && isUsable) log.warn('the witness cannot be used', { file: path, error });
    if (error === undefined && !isUsable) log.info('the witness can be used again', { file: path });
    isUsable = error === undefined;
  }

  /** The file must exist, because a missing one can be a folder that is not mounted. */
  async function read(): Promise<readonly Position[]> {
    const text = await readFile(path, 'utf8');
    return text.trim() === '' ? [] : (JSON.parse(text) as unknown[]).filter(isPosition);
  }

  return {
    newest: async () => {
      if (known && Math.abs(now() - readAt) < witnessInterval) return known;
      try {
        known = await read();
        report();
      } catch (error) {
        if (!known && !isOptional)
          throw new Unreachable(`SALLYPORT_WITNESS cannot be read: ${(error as Error).message}`, {
            cause: error,
          });
        report(error);
      }
      readAt = now();
      return known ?? [];
    },
    saw: async (position) => {
      if (Math.abs(now() - writtenAt) < witnessInterval) return;
      writtenAt = now();
      try {
        const temporary = `${path}.${hostname()}.${process.pid}`;
        await writeFile(temporary, `${JSON.stringify(withPosition(await read(), position))}\n`, {
          mode: 0o600,
        });
        await rename(temporary, path);
        report();
      } catch (error) {
        report(error);
      }
    },
  };
}
