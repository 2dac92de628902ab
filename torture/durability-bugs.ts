/** Planted bugs about what is on disk when a change is answered. */
import type { Bug } from './bug.ts';

export const durabilityBugs: readonly Bug[] = [
  {
    name: 'a change is answered before its sync',
    row: 'fsync-order',
    database: 'SQLite',
    changes: [
      {
        file: 'src/db/group-commit.ts',
        from: '    await driver.durable?.(outcomes.length);\n',
        to: '    void driver.durable?.(outcomes.length);\n',
      },
    ],
  },
  {
    name: 'a refused change is answered before a sync',
    row: 'fsync-order',
    database: 'SQLite',
    changes: [
      {
        file: 'src/db/group-commit.ts',
        from: '    if (!tx.mayHaveWritten()) return () => reject(error);\n',
        to: '    if (!tx.mayHaveWritten()) {\n      reject(error);\n      return () => {};\n    }\n',
      },
    ],
  },
  {
    name: 'a change waits for a sync that had begun before',
    row: 'lost-writes',
    database: 'SQLite',
    changes: [
      {
        file: 'src/db/sqlite/log-sync.ts',
        from: '      return next;\n',
        to: '      return Promise.race([next, current.then(() => new Promise<void>(setImmediate))]);\n',
      },
    ],
  },
  {
    name: 'commits sync on the event loop',
    row: 'fsync-order',
    database: 'SQLite',
    changes: [
      {
        file: 'src/db/sqlite/sqlite.ts',
        from: "db.run('pragma synchronous = normal');",
        to: "db.run('pragma synchronous = full');",
      },
    ],
  },
  {
    name: 'a failed sync is repeated',
    row: 'failed-syncs',
    database: 'SQLite',
    changes: [
      {
        file: 'src/db/sqlite/log-sync.ts',
        from: '        Atomics.store(counters, counter.failed, 1);\n        end(path, error);\n',
        to: "        if (path !== '') return work();\n",
      },
    ],
  },
  {
    name: 'a failed checkpoint is ignored',
    row: 'failed-syncs',
    database: 'SQLite',
    changes: [
      {
        file: 'src/db/sqlite/checkpoints.ts',
        from: "if (code?.startsWith('SQLITE_IOERR') &&",
        to: "if (code === '' &&",
      },
    ],
  },
  {
    name: 'the log is used after a failed sync',
    row: 'failed-syncs',
    database: 'SQLite',
    changes: [
      {
        file: 'src/db/sqlite/log-sync.ts',
        from: '    rewrite(logOf(path));\n',
        to: "    if (path === '') rewrite(logOf(path));\n",
      },
    ],
  },
];
