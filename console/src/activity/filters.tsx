/** Filters of the activity page. They are stored in the URL. */
import { Select } from '@mantine/core';
import { useState } from 'react';
import { type Sallyport, ValidationError } from '../../../sdk/src/sallyport.ts';
import { ApplicationPicker, useApplication } from '../applications/application-picker.tsx';
import { Choice } from '../frame/choice.tsx';
import { isUuid } from '../frame/format.ts';
import { href } from '../frame/route.ts';
import { SearchField } from '../frame/search-field.tsx';
import { isTime, TimeInput } from '../frame/time-input.tsx';
import { operations } from './operations.ts';

export const defaults = {
  result: 'all',
  period: '7d',
  from: '',
  to: '',
  operation: '',
  application: '',
  subject: '',
  purpose: '',
  person: '',
  q: '',
  live: '',
};
export type Filters = typeof defaults;

const hour = 3_600_000;
const lengths: Readonly<Record<string, number>> = {
  '1h': hour,
  '1d': 24 * hour,
  '7d': 7 * 24 * hour,
  '30d': 30 * 24 * hour,
};

/** The filter that a text in the search field stands for. Undefined if the text is empty. */
export type Found = {
  readonly [K in 'container' | 'id' | 'request_id' | 'token' | 'entity' | 'actor']?: string;
};

/** Whether the search is for one entry or request, which is shown even if it is outside the period. */
export function isExact(found: Found): boolean {
  return found.id !== undefined || found.request_id !== undefined;
}

/**
 * Finds out whether a text is the id of an entry, request, token, other resource, application or session, by asking the
 * log for entries of each. A text that the log does not know is treated as a token id.
 */
export async function findInLog(api: Sallyport, q: string, signal: AbortSignal): Promise<Found> {
  const text = q.trim();
  if (text === '' || text === '/') return {};
  if (text.startsWith('/')) return { container: text };
  const kinds: Found[] = [{ request_id: text }, { token: text }, { entity: text }];
  if (isUuid(text)) kinds.unshift({ id: text }, { actor: text });
  const pages = await Promise.all(
    kinds.map((kind) =>
      api.logs.list({ ...kind, size: 1 }, { signal }).catch((error: unknown) => {
        // Too long for this kind of id.
        if (error instanceof ValidationError) return undefined;
        throw error;
      }),
    ),
  );
  return kinds[pages.findIndex((page) => page && page.data.length > 0)] ?? { token: text };
}

/** The query for the service. Relative periods end at `now`. */
export function logQuery(filters: Filters, found: Found, now: number) {
  const { result, period, from, to, operation, application } = filters;
  const [subject, purpose, person] = [filters.subject, filters.purpose, filters.person].map((text) =>
    text.trim(),
  );
  if (isExact(found)) return found;
  const length = lengths[period];
  const times =
    period === 'custom'
      ? { ...(isTime(from) && { from }), ...(isTime(to) && { to }) }
      : length !== undefined && { from: new Date(now - length).toISOString() };
  return {
    ...(result === 'changes' && { changes: 'true' as const }),
    ...((result === 'success' || result === 'denied') && { result }),
    ...times,
    ...(operation !== '' && { operation }),
    ...(application !== '' && { actor: application }),
    ...(subject && { subject }),
    ...(purpose && { purpose }),
    ...(person && { person }),
    ...found,
  };
}

/** Opens the entries of a bar in a chart. */
export function openPeriod(
  { from, to }: { from: number; to: number },
  filter: Record<string, string> = {},
): void {
  const times = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  const query = new URLSearchParams({ period: 'custom', ...times, ...filter });
  location.hash = `${href('activity')}?${query}`;
}

interface Props {
  readonly filters: Filters;
  readonly set: (change: Partial<Filters>, how?: 'push' | 'replace') => void;
}

export function FilterBar({ filters, set }: Props) {
  const application = useApplication(filters.application);
  return (
    <div className="tools">
      <Choice
        label="Result"
        value={filters.result}
        options={[
          ['all', 'All'],
          ['success', 'Succeeded'],
          ['denied', 'Denied'],
          ['changes', 'Changes'],
        ]}
        choose={(result) => set({ result })}
      />
      <Choice
        label="Period"
        value={filters.period}
        options={[
          ['1h', '1 hour'],
          ['1d', '1 day'],
          ['7d', '7 days'],
          ['30d', '30 days'],
          ['all', 'All time'],
          ['custom', 'Custom'],
        ]}
        choose={(period) => set(period === 'custom' ? { period } : { period, from: '', to: '' })}
      />
      {filters.period === 'custom' && (
        <div className="tools-line">
          <TimeInput label="From" value={filters.from} change={(from) => set({ from })} />
          <TimeInput label="To" value={filters.to} change={(to) => set({ to })} />
        </div>
      )}
      <div className="tools-line">
        <ApplicationPicker
          label="Application"
          hideLabel
          placeholder="Any application"
          clearable
          value={application}
          onChange={(chosen) => set({ application: chosen?.id ?? '' })}
        />
        <OperationPicker value={filters.operation} choose={(operation) => set({ operation })} />
        <SearchField
          label="Search"
          placeholder="ID of a request, token, session or entry, or a container"
          value={filters.q}
          onChange={(q) => set({ q }, 'replace')}
        />
        <SearchField
          label="Subject"
          placeholder="Session of, such as user:42"
          value={filters.subject}
          onChange={(subject) => set({ subject }, 'replace')}
        />
        <SearchField
          label="Purpose"
          placeholder="Exact purpose"
          value={filters.purpose}
          onChange={(purpose) => set({ purpose }, 'replace')}
        />
        <SearchField
          label="Person"
          placeholder="Email or subject of a person"
          value={filters.person}
          onChange={(person) => set({ person }, 'replace')}
        />
      </div>
    </div>
  );
}

/** Offers the operations of the service. The user can type any other. */
function OperationPicker({ value, choose }: { value: string; choose: (operation: string) => void }) {
  const [text, setText] = useState('');
  const all = [...new Set([...operations, value, text.trim()])].filter(Boolean);
  return (
    <Select
      aria-label="Operation"
      placeholder="Any operation"
      data={all}
      value={value === '' ? null : value}
      onChange={(operation) => choose(operation ?? '')}
      searchValue={text}
      onSearchChange={setText}
      clearable
      searchable
      clearButtonProps={{ 'aria-label': 'Clear operation' }}
    />
  );
}
