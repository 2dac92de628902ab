import { z } from 'zod';
import { type LogEntry, logFilter, results } from '../domain/audit.ts';
import { Id } from '../domain/field.ts';
import type { Store } from '../store/store.ts';
import { sealAll } from './audit.ts';
import { type Command, type Invocation, type Options, UsageError } from './command.ts';
import { withStore } from './open.ts';
import { untilTold } from './stop.ts';
import { visible } from './table.ts';

const Filter = z.strictObject({
  ...logFilter,
  tenant: Id.optional(),
  lines: z
    .string()
    .regex(/^[1-9]\d{0,5}$/, 'must be a whole number from 1 to 999999')
    .default('20')
    .transform(Number),
});
type Filter = z.infer<typeof Filter>;

export const logsCommands: readonly Command[] = [
  {
    words: ['logs', 'tail'],
    takes: [],
    options: [
      { name: 'follow', sentence: 'Go on, and print what comes, until told to stop.' },
      { name: 'lines', takes: 'NUMBER', sentence: 'How many to print at first, 20 unless told otherwise.' },
      { name: 'tenant', takes: 'ID', sentence: 'Only those of this tenant.' },
      { name: 'actor', takes: 'ID', sentence: 'Only what this Application or Session did.' },
      { name: 'entity', takes: 'ID', sentence: 'Only what was done to the thing with this id.' },
      { name: 'operation', takes: 'NAME', sentence: 'Only this operation, such as application.update.' },
      { name: 'result', takes: 'RESULT', sentence: `Only what came out like this: ${results.join(', ')}.` },
      { name: 'from', takes: 'TIME', sentence: 'Only from this moment on.' },
      { name: 'to', takes: 'TIME', sentence: 'Only before this moment.' },
    ],
    summary: 'Print the end of the audit log, of all tenants, newest last.',
    details: 'One line an entry, or one JSON object with --json. GET /logs shows a tenant its own.',
    run: tail,
  },
];

async function tail(invocation: Invocation): Promise<number> {
  const { options, json, print } = invocation;
  const { lines, ...filter } = filterOf(options);
  const show = (entries: readonly LogEntry[]) => {
    for (const entry of entries) print(json ? JSON.stringify(entry) : inOneLine(entry));
  };
  return withStore(invocation, async (store) => {
    const end = await sealedUpTo(store);
    show(await last(store, filter, lines, end));
    if (options.on('follow')) await follow(store, filter, end, show);
  });
}

function filterOf(options: Options): Filter {
  const names = Object.keys(Filter.shape);
  const filter = Filter.safeParse(Object.fromEntries(names.map((name) => [name, options.value(name)])));
  if (filter.success) return filter.data;
  const [issue] = filter.error.issues;
  throw new UsageError(`--${issue?.path[0] as string} ${issue?.message}`);
}

/** The order of the chain is that in which entries came in, and it takes them all: first those that wait for it. */
async function sealedUpTo(store: Store): Promise<number> {
  await sealAll(store);
  return (await store.audit.head())?.seq ?? 0;
}

/** How much of the chain one query looks through. */
const stretch = 5000;

async function last(
  store: Store,
  filter: Omit<Filter, 'lines'>,
  count: number,
  end: number,
): Promise<LogEntry[]> {
  let found: LogEntry[] = [];
  for (let upTo = end; upTo > 0 && found.length < count; upTo -= stretch)
    found = [...(await store.audit.sealed(filter, { after: upTo - stretch, upTo })), ...found];
  return found.slice(-count);
}

const pause = 1000;

async function follow(
  store: Store,
  filter: Omit<Filter, 'lines'>,
  end: number,
  show: (entries: readonly LogEntry[]) => void,
): Promise<void> {
  let stopped = false;
  const told = untilTold().then(() => {
    stopped = true;
  });
  for (let shown = end; !stopped; await Promise.race([Bun.sleep(pause), told])) {
    const now = await sealedUpTo(store);
    for (; shown < now; shown = Math.min(now, shown + stretch))
      show(await store.audit.sealed(filter, { after: shown, upTo: Math.min(now, shown + stretch) }));
  }
}

/** Who did what on what, from where, and what came of it. */
export function inOneLine(entry: LogEntry): string {
  const { at, result, operation, entity, actor, from, reason, count, difference, request_id } = entry;
  const parts = [
    at,
    result.padEnd(7),
    operation,
    entity && `${entity.kind} ${entity.id}`,
    `by ${[actor.kind, actor.id].filter(Boolean).join(' ')}`,
    from.ip && `from ${from.ip}`,
    reason,
    count && `×${count}`,
    difference && `changed ${Object.keys(difference).join(', ')}`,
    request_id && `request ${request_id}`,
  ];
  return visible(parts.filter(Boolean).join('  '));
}
