/** Filters of the activity page. They are stored in the URL. */
import { Select } from '@mantine/core';
import { useState } from 'react';
import { ApplicationPicker, useApplication } from '../applications/application-picker.tsx';
import { Choice } from '../frame/choice.tsx';
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
  q: '',
};
export type Filters = typeof defaults;

const hour = 3_600_000;
const lengths: Readonly<Record<string, number>> = {
  '1h': hour,
  '1d': 24 * hour,
  '7d': 7 * 24 * hour,
  '30d': 30 * 24 * hour,
};

/** The query for the service. Relative periods end at `now`. */
export function logQuery({ result, period, from, to, operation, application, q }: Filters, now: number) {
  const length = lengths[period];
  const text = q.trim();
  const times =
    period === 'custom'
      ? { ...(isTime(from) && { from }), ...(isTime(to) && { to }) }
      : length !== undefined && { from: new Date(now - length).toISOString() };
  return {
    ...(result !== 'all' && { result: result as 'success' | 'denied' }),
    ...times,
    ...(operation !== '' && { operation }),
    ...(application !== '' && { actor: application }),
    ...(text !== '' && text !== '/' && (text.startsWith('/') ? { container: text } : { token: text })),
  };
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
          placeholder="Token ID, or container such as /customers/"
          value={filters.q}
          onChange={(q) => set({ q }, 'replace')}
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
