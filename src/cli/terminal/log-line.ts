/** Looking at the audit log: what it may be narrowed to, and an entry for people. */

import { z } from 'zod';
import { type LogEntry, results } from '../../domain/audit.ts';
import { escapeText } from '../../domain/escape.ts';
import type { Option } from '../command.ts';

export const tailOptions: readonly Option[] = [
  {
    name: 'follow',
    sentence: 'Go on, and print what comes, until told to stop, also when it is out of reach for a while.',
  },
  { name: 'lines', takes: 'NUMBER', sentence: 'How many to print at first, 20 unless told otherwise.' },
  { name: 'actor', takes: 'ID', sentence: 'Only what this Application or Session did.' },
  { name: 'entity', takes: 'ID', sentence: 'Only what was done to the thing with this id.' },
  { name: 'operation', takes: 'NAME', sentence: 'Only this operation, such as application.update.' },
  {
    name: 'result',
    takes: 'RESULT',
    oneOf: results,
    sentence: `Only what came out like this: ${results.join(', ')}.`,
  },
  { name: 'from', takes: 'TIME', sentence: 'Only from this moment on.' },
  { name: 'to', takes: 'TIME', sentence: 'Only before this moment.' },
];

export const lines = z
  .string()
  .regex(/^[1-9]\d{0,5}$/, 'must be a whole number from 1 to 999999')
  .default('20')
  .transform(Number);

/** Who did what on what, from where, and what came of it. */
export function inOneLine(entry: Omit<LogEntry, 'difference'> & { difference?: object | undefined }): string {
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
  return escapeText(parts.filter(Boolean).join('  '));
}
