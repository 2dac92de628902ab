import { Button } from '@mantine/core';
import { useDeferredValue, useEffect, useMemo, useState } from 'react';
import type { Application } from '../../../sdk/src/sallyport.ts';
import { Choice } from '../frame/choice.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useShortcuts } from '../frame/keyboard.ts';
import { href, navigate, useRouteQuery } from '../frame/route.ts';
import { SearchField } from '../frame/search-field.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { SkeletonRows } from '../frame/skeleton.tsx';
import { useApplications } from './application-store.ts';
import { labelsOf } from './labels.ts';
import { ListActions } from './list-actions.tsx';
import { type Column, type Order, Table } from './table.tsx';

type Filter = 'all' | Application['type'] | 'unused' | 'expiring';
const filters: readonly [Filter, string][] = [
  ['all', 'All'],
  ['private', 'Private'],
  ['public', 'Public'],
  ['management', 'Management'],
  ['unused', 'No recorded use'],
  ['expiring', 'Expiring'],
];

function passes(application: Application, filter: Filter): boolean {
  if (filter === 'unused') return application.last_used_at === undefined;
  if (filter === 'expiring') return application.expires_at !== undefined;
  return application.type === filter || !filters.some(([value]) => value === filter) || filter === 'all';
}

/** Does not search containers: a match would not show whether the application can read the container. */
function contains(application: Application, words: readonly string[]): boolean {
  const { name, id, permissions, rules } = application;
  return words.every(
    (word) =>
      name.toLowerCase().includes(word) ||
      id === word ||
      labelsOf(application).some((label) => label.toLowerCase().includes(word)) ||
      permissions.some((permission) => permission.includes(word)) ||
      rules.some((rule) => rule.permissions.some((permission) => permission.includes(word))),
  );
}

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });
const byName = (a: Application, b: Application) => collator.compare(a.name, b.name);
const never = '0';
const last = '~';
const comparisons: Record<Column, (a: Application, b: Application) => number> = {
  name: byName,
  used: (a, b) => ((a.last_used_at ?? never) < (b.last_used_at ?? never) ? -1 : 1),
  expires: (a, b) => ((a.expires_at ?? last) < (b.expires_at ?? last) ? -1 : 1),
  created: (a, b) => (a.created_at < b.created_at ? -1 : 1),
};

/** Parses `created` for ascending and `-created` for descending order. */
function parseOrder(text: string): Order {
  const column = text.replace(/^-/, '');
  return Object.hasOwn(comparisons, column)
    ? { column: column as Column, descending: text.startsWith('-') }
    : { column: 'created', descending: true };
}

function useFiltered(list: readonly Application[], text: string, filter: Filter, sort: string) {
  return useMemo(() => {
    const order = parseOrder(sort);
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = list.filter((each) => passes(each, filter) && contains(each, words));
    // The API returns the newest first.
    if (order.column === 'created') return order.descending ? found : found.reverse();
    const compare = comparisons[order.column];
    return found.sort((a, b) => (order.descending ? -compare(a, b) : compare(a, b)));
  }, [list, text, filter, sort]);
}

export function Applications() {
  const signedIn = useSignedIn();
  const { list, complete, error } = useApplications(signedIn.applications);
  const [query, setQuery] = useRouteQuery({ q: '', show: 'all', sort: '-created' });
  const [text, setText] = useState(query.q);
  const filter = query.show as Filter;
  const visible = useFiltered(list, useDeferredValue(text), filter, query.sort);
  useEffect(() => signedIn.applications.refresh(), [signedIn]);
  const mayCreate = holds(signedIn, 'application:create');
  useShortcuts({ c: () => mayCreate && navigate('applications', 'new') });
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
            {complete
              ? plural(list.length, 'application')
              : list.length === 0
                ? 'Loading…'
                : `${formatNumber(list.length)} loaded…`}
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
        <SearchField
          label="Search applications"
          placeholder="Name, ID, permission or label"
          value={query.q}
          onType={setText}
          onChange={(q) => setQuery({ q }, 'replace')}
        />
        <Choice
          label="Filter"
          value={filter}
          options={filters}
          choose={(value) => setQuery({ show: value })}
        />
      </div>
      {error !== undefined && <ErrorNotice error={error} retry={() => void signedIn.applications.load()} />}
      {!complete && list.length === 0 && <SkeletonRows rows={10} />}
      {visible.length > 0 && <ListActions rows={visible} />}
      {visible.length > 0 ? (
        <Table
          rows={visible}
          order={parseOrder(query.sort)}
          setOrder={({ column, descending }) => setQuery({ sort: `${descending ? '-' : ''}${column}` })}
        />
      ) : (
        complete && <EmptyList filtered={list.length > 0} text={text.trim()} mayCreate={mayCreate} />
      )}
    </div>
  );
}

interface EmptyListProps {
  readonly filtered: boolean;
  readonly text: string;
  readonly mayCreate: boolean;
}

function EmptyList({ filtered, text, mayCreate }: EmptyListProps) {
  const container = filtered && text.includes('/');
  return (
    <div className="empty">
      <Icon name="applications" size={28} />
      <h2>{filtered ? 'No matching applications' : 'No applications yet'}</h2>
      <p>
        {filtered
          ? container
            ? 'Containers are not searched here: an application can also access a container that its rules do not name.'
            : 'Change the search or the filter.'
          : 'An application is a set of keys with their access rules. Create one for each backend, web page and tool.'}
      </p>
      {container && (
        <Button component="a" href={`${href('who')}?${new URLSearchParams({ q: text })}`}>
          Who has access to {text}?
        </Button>
      )}
      {!filtered && mayCreate && (
        <Button component="a" href={href('applications', 'new')}>
          Create an application
        </Button>
      )}
    </div>
  );
}
