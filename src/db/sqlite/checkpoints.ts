/** Checkpoints in a thread of their own: they sync twice, and copy the write-ahead log into the database file. */

import type { Database } from 'bun:sqlite';
import { Worker } from 'node:worker_threads';
import { pathWithoutLinks } from './file-ownership.ts';

/** What SQLite said about a checkpoint. `code` is that of an error. */
interface Pass {
  readonly code?: string;
  readonly message?: string;
}

type Command = 'pass' | 'last pass' | 'close';

/**
 * Only the last pass may copy the whole log: the next commit then begins the log anew, which syncs its header. So that
 * this never happens on the event loop, a connection reads an older state during other passes, and after the last pass
 * the first commit is made here. It changes nothing.
 */
function work(
  open: (path: string) => Database,
  path: string,
  port: {
    on(event: 'message', receive: (command: Command) => void): void;
    postMessage(pass: Pass): void;
    close(): void;
  },
): void {
  let db: Database | undefined;
  let older: Database | undefined;
  const connect = () => {
    const connection = open(path);
    connection.run('pragma synchronous = normal');
    connection.run('pragma wal_autocheckpoint = 0');
    return connection;
  };
  const copy = (on: Database) => {
    const row = on.query('pragma wal_checkpoint(passive)').get() as Record<string, number>;
    return row.busy === 0 && row.log === row.checkpointed;
  };
  const startAnew = (on: Database) => {
    on.run('begin immediate');
    const { user_version: version } = on.query('pragma user_version').get() as Record<string, number>;
    on.run(`pragma user_version = ${version}`);
    on.run('commit');
  };
  const run = (command: Command) => {
    db ??= connect();
    older ??= connect();
    if (older.inTransaction) older.run('rollback');
    if (command === 'last pass') {
      for (let attempt = 0; attempt < 3; attempt++) if (copy(db)) return startAnew(db);
    } else {
      older.run('begin');
      older.query('select count(*) from sqlite_master').get();
      copy(db);
    }
  };
  port.on('message', (command) => {
    try {
      if (command === 'close') {
        older?.close();
        db?.close();
        port.close();
      } else {
        run(command);
        port.postMessage({});
      }
    } catch (error) {
      if (db?.inTransaction) db.run('rollback');
      const { code, message } = error as { code: string; message: string };
      port.postMessage({ code, message });
    }
  });
}

const source = (path: string) => `
  const { Database, constants } = require('bun:sqlite');
  const open = (path) => new Database(path, constants.SQLITE_OPEN_READWRITE | constants.SQLITE_OPEN_NOFOLLOW);
  (${work})(open, ${JSON.stringify(path)}, require('node:worker_threads').parentPort);`;

export interface Checkpoints {
  /** Begins a checkpoint if the log is large. */
  begin(): void;
  /** The thread closes the database last, because that is a checkpoint, too. */
  close(closeOthers: () => void): Promise<void>;
}

export interface CheckpointOptions {
  readonly path: string;
  /** The number of pages in the log. */
  readonly pages: () => number;
  /** Ends the process if the work fails. */
  readonly watch: (work: () => Promise<void>) => Promise<void>;
  /** Runs the work between two commits. */
  readonly between: (work: () => Promise<void>) => Promise<void>;
  /** The log may grow by this many pages before a checkpoint. */
  readonly growth?: number;
}

/** Commits wait for the first pass, too, if the log grows by this many times the growth meanwhile. */
const mostGrowth = 3;

/** Each checkpoint has two passes, so that commits wait only for a short one. The thread starts with the first. */
export function checkpoints({ path, pages, watch, between, growth = 4000 }: CheckpointOptions): Checkpoints {
  let worker: Worker | undefined;
  let limit = growth;
  let running: Promise<void> | undefined;
  /** Undefined if commits wait for it. */
  let firstPass: Promise<void> | undefined;

  async function send(command: Command): Promise<void> {
    worker ??= new Worker(source(pathWithoutLinks(path)), { eval: true, env: {} });
    worker.unref();
    const { promise, resolve } = Promise.withResolvers<Pass>();
    worker.once('message', resolve);
    worker.postMessage(command);
    const { code, message } = await promise;
    // A failed sync or write. After others, such as a full disk or a lock, the log only grows.
    if (code?.startsWith('SQLITE_IOERR') && code !== 'SQLITE_IOERR_SHMSIZE') throw new Error(message);
  }

  async function checkpoint(): Promise<void> {
    firstPass = watch(() => send('pass'));
    await firstPass;
    await between(() => watch(() => send('last pass')));
    limit = pages() + growth;
    running = undefined;
    firstPass = undefined;
  }

  return {
    begin: () => {
      const size = pages();
      if (running) {
        const pass = firstPass;
        if (!pass || size < limit + mostGrowth * growth) return;
        firstPass = undefined;
        between(() => pass).catch(() => {});
        return;
      }
      // Another process may have begun the log anew.
      limit = Math.min(limit, size + growth);
      if (size >= limit) running = checkpoint().catch(() => {});
    },
    close: async (closeOthers) => {
      await running;
      closeOthers();
      if (!worker) return;
      const { promise, resolve } = Promise.withResolvers<unknown>();
      worker.once('exit', resolve).ref();
      worker.postMessage('close');
      await promise;
    },
  };
}
