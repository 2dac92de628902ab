import { Button, TextInput } from '@mantine/core';
import { useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useShortcuts } from '../frame/keyboard.ts';
import { href, navigate } from '../frame/route.ts';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { useApplications } from './application-store.ts';
import { type Column, type Order, Table } from './table.tsx';

type Filter = 'all' | Application['type'] | 'unused' | 'expiring';
const filters: readonly [Filter, string][] = [
  ['all', 'All'],
  ['private', 'Private'],
  ['public', 'Public'],
  ['management', 'Management'],
  ['unused', 'Never used'],
  ['expiring', 'Expiring'],
];

function passes(application: Application, filter: Filter): boolean {
  if (filter === 'all') return true;
  if (filter === 'unused') return application.last_used_at === undefined;
  if (filter === 'expiring') return application.expires_at !== undefined;
  return application.type === filter;
}

function contains({ name, id, permissions, rules }: Application, words: readonly string[]): boolean {
  return words.every(
    (word) =>
      name.toLowerCase().includes(word) ||
      id === word ||
      permissions.some((permission) => permission.includes(word)) ||
      rules.some(
        (rule) =>
          rule.container?.toLowerCase().includes(word) ||
          rule.permissions.some((permission) => permission.includes(word)),
      ),
  );
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
const byName = (a: Application, b: Application) => collator.compare(a.name, b.name);
const never = '0';
const last = '~';
const comparisons: Record<Column, (a: Application, b: Application) => number> = {
  name: byName,
  used: (a, b) => ((a.last_used_at ?? never) < (b.last_used_at ?? never) ? -1 : 1),
  expires: (a, b) => ((a.expires_at ?? last) < (b.expires_at ?? last) ? -1 : 1),
  created: (a, b) => (a.created_at < b.created_at ? -1 : 1),
};

function useFiltered(list: readonly Application[], text: string, filter: Filter, order: Order) {
  return useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = list.filter((each) => passes(each, filter) && contains(each, words));
    // The API returns the newest first.
    if (order.column === 'created') return order.descending ? found : found.reverse();
    const compare = comparisons[order.column];
    return found.sort((a, b) => (order.descending ? -compare(a, b) : compare(a, b)));
  }, [list, text, filter, order]);
}

export function Applications() {
  const signedIn = useSignedIn();
  const { list, complete, error } = useApplications(signedIn.applications);
  const [text, setText] = useState('');
  const [filter, setFilter] = useState<Filter>('all');
  const [order, setOrder] = useState<Order>({ column: 'created', descending: true });
  const visible = useFiltered(list, useDeferredValue(text), filter, order);
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => signedIn.applications.refresh(), [signedIn]);
  const mayCreate = holds(signedIn, 'application:create') !== false;
  useShortcuts({ '/': () => search.current?.focus(), c: () => mayCreate && navigate('applications', 'new') });
  if (error !== undefined && list.length === 0) {
    return (
      <div className="page">
        <h1>Applications</h1>
        <ErrorNotice error={error} retry={() => void signedIn.applications.load()} />
      </div>
    );
  }
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Applications</h1>
          <p className="quiet" aria-live="polite">
            {complete ? plural(list.length, 'application') : `${formatNumber(list.length)} loaded…`}
            {visible.length !== list.length && `, ${formatNumber(visible.length)} shown`}
          </p>
        </div>
        {mayCreate && (
          <Button
            component="a"
            href={href('applications', 'new')}
            leftSection={<Icon name="plus" size={14} />}
          >
            Create
          </Button>
        )}
      </header>
      <div className="tools">
        <TextInput
          ref={search}
          className="grow"
          aria-label="Search applications"
          placeholder="Name, permission or container"
          leftSection={<Icon name="search" size={14} />}
          rightSection={text === '' ? <kbd>/</kbd> : undefined}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => event.key === 'Escape' && setText('')}
        />
        <fieldset className="filters">
          <legend className="visually-hidden">Filter</legend>
          {filters.map(([value, label]) => (
            <button
              key={value}
              type="button"
              aria-pressed={filter === value}
              onClick={() => setFilter(value)}
            >
              {label}
            </button>
          ))}
        </fieldset>
      </div>
      {error !== undefined && <ErrorNotice error={error} retry={() => void signedIn.applications.load()} />}
      {visible.length > 0 ? (
        <Table rows={visible} order={order} setOrder={setOrder} />
      ) : (
        complete && <EmptyList filtered={list.length > 0} mayCreate={mayCreate} />
      )}
    </div>
  );
}

function EmptyList({ filtered, mayCreate }: { filtered: boolean; mayCreate: boolean }) {
  return (
    <div className="empty">
      <Icon name="applications" size={28} />
      <h2>{filtered ? 'No matching applications' : 'No applications yet'}</h2>
      <p>
        {filtered
          ? 'Change the search or the filter.'
          : 'An application is a set of keys with their access rules. Create one for each backend, web page and tool.'}
      </p>
      {!filtered && mayCreate && (
        <Button component="a" href={href('applications', 'new')}>
          Create an application
        </Button>
      )}
    </div>
  );
}
