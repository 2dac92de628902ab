/**
 * The newest positions of the database that this node has seen, in a file so that it knows them after a restart, and
 * those that other nodes have seen. See domain/database-position.ts.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../config/settings.ts';
import { isBehind, type KnownPositions, type Position } from '../domain/database-position.ts';
import { createFolder } from '../store/engine/file-ownership.ts';
import { type Log, makeLog } from '../telemetry/log.ts';

/** Milliseconds that an answer of other nodes is used, and that they have for it. */
const [answerLifetime, answerTimeout] = [5000, 500];
/** Maximum databases whose positions are stored. */
const maxInstallations = 10;

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

export function positionMemory(file: string, log: Log, now: () => number): PositionMemory {
  let stored = read(file, log);
  let current: Position | undefined;
  let host: string | undefined;
  let asked: { readonly at: number; readonly answers: Promise<Position[]> } | undefined;
  let mayWarn = true;
  const unusable = new Set<string>();

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
      asked = { at: now(), answers: Promise.all(stored.nodes.map(ask)).then((each) => each.flat()) };
    return asked.answers;
  }

  return {
    current: () => current,
    host: () => host,
    newest: async () => [...stored.positions, ...(await askOthers())],
    saw: (position, at) => {
      if (host !== undefined && at !== host)
        log.info('connected to another database server', { host: at, ...position });
      [current, host] = [position, at];
      const [first] = stored.positions;
      if (first?.installation === position.installation && !isBehind(first, position)) return;
      const others = stored.positions.filter(({ installation }) => installation !== position.installation);
      store({ ...stored, positions: [position, ...others].slice(0, maxInstallations) });
    },
    triedWorker: (worker, error) => {
      if (error && !unusable.has(worker)) log.warn('a Citus worker cannot be used', { worker, error });
      if (error) unusable.add(worker);
      else if (unusable.delete(worker)) log.info('a Citus worker can be used again', { worker });
    },
    setNodes: (nodes) => {
      if (nodes.join() !== stored.nodes.join()) store({ ...stored, nodes });
    },
  };
}

/** For commands: remembers nothing, and asks other nodes once. */
export function knownPositions(config: Pick<Config, 'dataDir'>): KnownPositions {
  const log = makeLog({ level: 'error' });
  return { ...positionMemory(positionFile(config), log, () => 0), saw: () => {} };
}

/** What another node has seen. Empty if it does not answer. */
async function ask(url: string): Promise<Position[]> {
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

function isPosition(value: unknown): value is Position {
  const { installation, era, timeline, beat } = (value ?? {}) as Position;
  return typeof installation === 'string' && [era, timeline, beat].every(Number.isSafeInteger);
}
