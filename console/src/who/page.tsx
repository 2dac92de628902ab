/** Shows who has access now, or whose access changed between two times. */
import { Button, Select, TextInput } from '@mantine/core';
import { type FormEvent, useEffect, useState } from 'react';
import type { AccessEntry } from '../../../sdk/src/sallyport.ts';
import { OutcomeBadge } from '../access/outcome.tsx';
import { useDestinations } from '../destinations/stored.ts';
import { Choice } from '../frame/choice.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatNumber, plural } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useNow } from '../frame/load.ts';
import { usePaged } from '../frame/paged.ts';
import { useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { TableTools } from '../frame/table-tools.tsx';
import { AccessChanges } from './changes.tsx';
import { PermissionField } from './permission-field.tsx';
import { AccessReport } from './report.tsx';
import { AccessTable } from './table.tsx';
import { UnusedGrantsList } from './unused.tsx';

const pageSize = 50;
const defaults = { q: '', permission: 'token:read', destination: '' };
type Question = typeof defaults;
type Totals = Readonly<Record<'reveal' | 'mask' | 'redact', number>>;
const transforms = ['reveal', 'mask', 'redact'] as const;

/** Loads the review page by page. Only the first page has totals. */
function useReview({ q, permission, destination }: Question) {
  const { api } = useSignedIn();
  const name = `who ${q} ${permission} ${destination}`;
  const isUse = permission === 'token:use';
  const [totals, setTotals] = useState<{ name: string; totals: Totals | undefined }>();
  const resource = q.startsWith('/') ? { container: q } : { token: q };
  const page = usePaged<AccessEntry>(name, async (start, signal) => {
    if (q === '' || (isUse && destination === '')) return { data: [], next: undefined };
    const query = {
      ...resource,
      permission,
      ...(isUse && { destination }),
      size: pageSize,
      ...(start && { start }),
    };
    const { data, totals, pagination } = await api.access.who(query, { signal });
    if (!start && !signal.aborted) setTotals({ name, totals });
    return { data, next: pagination.next };
  });
  return { ...page, totals: totals?.name === name ? totals.totals : undefined };
}

const views = [
  ['now', 'Now'],
  ['changes', 'Changes'],
  ['unused', 'Unused grants'],
  ['report', 'Report'],
] as const;

const descriptions = {
  now: 'Applications and active sessions that can access a container or token, riskiest first',
  changes: 'Applications that gained and lost access between two times, from the audit log',
  unused: 'Grants of applications without recorded use, riskiest first',
  report: 'A report for auditors about a period, to print and to file',
};

export function WhoPage() {
  const [{ view }, set] = useRouteQuery({ view: 'now' });
  const [current] = views.find(([value]) => value === view) ?? views[0];
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>Who has access?</h1>
          <p className="quiet">{descriptions[current]}</p>
        </div>
        <Choice label="View" value={current} options={views} choose={(next) => set({ view: next })} />
      </header>
      {current === 'now' && <CurrentAccess />}
      {current === 'changes' && <AccessChanges />}
      {current === 'unused' && <UnusedGrantsList />}
      {current === 'report' && <AccessReport />}
    </div>
  );
}

const reviewHead = [
  'Kind',
  'Name',
  'ID',
  'Subject',
  'Permission',
  'Transform',
  'Purpose required',
  'Rule',
  'Limited by',
  'Quarantine of',
  'Last used',
];

function cellsOf({
  subject,
  permission,
  transform,
  require_purpose: isPurposeRequired,
  rule,
  limited_by: limit,
  quarantine,
  last_used_at: used,
}: AccessEntry) {
  const who = [subject.type, subject.name, subject.id, subject.subject ?? ''];
  const access = [permission, transform, isPurposeRequired ? 'yes' : 'no', `${rule.of} ${rule.rule}`];
  const quarantineOf = quarantine ? `${quarantine.type} ${quarantine.name}` : '';
  return [...who, ...access, limit?.name ?? '', quarantineOf, used ?? ''];
}

/** Every application and active session that has a permission in a container or on a token. */
function CurrentAccess() {
  const [question, set] = useRouteQuery(defaults);
  const { q, permission } = question;
  const review = useReview(question);
  const now = useNow(30_000);
  return (
    <>
      <QuestionForm question={question} ask={set} />
      {review.error !== undefined && <ErrorNotice error={review.error} retry={review.reload} />}
      {q === '' && (
        <div className="empty">
          <Icon name="people" size={28} />
          <h2>Which data?</h2>
          <p>Enter a container, such as /customers/42/, or the ID of a token.</p>
        </div>
      )}
      {q !== '' && review.loading && review.items.length === 0 && <p className="fine">Loading…</p>}
      {q !== '' && !review.loading && review.error === undefined && (
        <>
          {review.totals && <TotalsBar totals={review.totals} />}
          {review.items.length === 0 && !review.more && (
            <div className="empty">
              <Icon name="lock" size={28} />
              <h2>Nobody has access</h2>
              <p>
                No application and no active session has <code>{permission}</code> there.
              </p>
            </div>
          )}
        </>
      )}
      {review.items.length > 0 && (
        <TableTools name="access" head={reviewHead} rows={() => review.items.map(cellsOf)} />
      )}
      {review.items.length > 0 && <AccessTable entries={review.items} now={now} changed={review.reload} />}
      {review.more && (
        <div className="foot">
          <span className="fine">
            {plural(review.items.length, 'entry', 'entries')} loaded
            {!review.totals && '. There are too many to count'}
          </span>
          <Button variant="default" onClick={review.more}>
            Load more
          </Button>
        </div>
      )}
    </>
  );
}

interface FormProps {
  readonly question: Question;
  readonly ask: (question: Question) => void;
}

function QuestionForm({ question, ask }: FormProps) {
  const { q, permission, destination } = question;
  const { data: destinations = [] } = useDestinations();
  const [text, setText] = useState(q);
  useEffect(() => setText(q), [q]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    ask({ ...question, q: text.trim() });
  };
  return (
    <form className="tools who-form" onSubmit={submit}>
      <TextInput
        className="grow"
        label="Container or token"
        placeholder="/customers/42/ or card-4242"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        spellCheck={false}
      />
      <PermissionField
        value={permission}
        choose={(value) => ask({ ...question, q: text.trim(), permission: value })}
      />
      {permission === 'token:use' && (
        <Select
          label="Destination"
          placeholder="Choose one"
          data={destinations.map(({ name }) => name)}
          value={destination === '' ? null : destination}
          onChange={(value) => ask({ ...question, q: text.trim(), destination: value ?? '' })}
        />
      )}
      <Button type="submit">Find</Button>
    </form>
  );
}

function TotalsBar({ totals }: { totals: Totals }) {
  const sum = transforms.reduce((total, each) => total + totals[each], 0);
  if (sum === 0) return null;
  return (
    <section className="card totals" aria-label="Totals">
      <p className="totals-sum">
        <strong>{formatNumber(sum)}</strong> with access
      </p>
      {transforms.map((each) => (
        <p key={each} className={totals[each] === 0 ? 'totals-none' : undefined}>
          <strong>{formatNumber(totals[each])}</strong> <OutcomeBadge answer={each} />
        </p>
      ))}
      <div className="totals-bar" aria-hidden="true">
        {transforms.map((each) => (
          <i key={each} className={`share-${each}`} style={{ flexGrow: totals[each] }} />
        ))}
      </div>
    </section>
  );
}
