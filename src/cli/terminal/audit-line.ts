/** Options of `logs tail` and `audit tail`, and the line that they print for an entry. */
import { z } from 'zod';
import { type LogEntry, results } from '../../domain/audit.ts';
import { escapeText } from '../../domain/escape.ts';
import type { Option } from '../command.ts';

export const tailOptions: readonly Option[] = [
  {
    name: 'follow',
    description: 'Print new entries until interrupted. Retries if the connection is lost.',
  },
  { name: 'lines', value: 'NUMBER', description: 'Number of entries to print first. Default: 20.' },
  { name: 'actor', value: 'ID', description: 'Filter by the application or session that made the request.' },
  { name: 'entity', value: 'ID', description: 'Filter by the id of the changed object.' },
  { name: 'operation', value: 'NAME', description: 'Filter by operation, such as application.update.' },
  {
    name: 'result',
    value: 'RESULT',
    choices: results,
    description: 'Filter by result.',
  },
  {
    name: 'from',
    value: 'TIME',
    description: 'Only entries at or after this time, such as 2030-01-31T12:00:00Z.',
  },
  { name: 'to', value: 'TIME', description: 'Only entries before this time.' },
];

export const lines = z
  .string()
  .regex(/^[1-9]\d{0,5}$/, 'must be a whole number from 1 to 999999')
  .default('20')
  .transform(Number);

export function formatEntry(
  entry: Omit<LogEntry, 'difference'> & { difference?: object | undefined },
): string {
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
