/** Shows the tokens that a subject has seen, and who has seen the data about it. */
import { Button, TextInput } from '@mantine/core';
import { type FormEvent, type ReactNode, useEffect, useState } from 'react';
import { type AboutSubject, aboutSubject, type Reads } from '../../../sdk/src/sallyport.ts';
import { Scrollable } from '../charts/scrollable.tsx';
import { Choice } from '../frame/choice.tsx';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { formatDate, formatNumber, plural, shortId } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useLoad } from '../frame/load.ts';
import { href, useRouteQuery } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { TableTools } from '../frame/table-tools.tsx';
import { Actor } from './actor.tsx';
import { Gaps } from './gaps.tsx';

const day = 86_400_000;
const lengths: Readonly<Record<string, number>> = { '30d': 30 * day, '365d': 365 * day };
/** Entries of the log for each list. More would take too long in a page. */
const maxEntries = 5000;
const defaults = { about: '', container: '', period: '30d' };

export function SubjectActivity({ choice }: { choice: ReactNode }) {
  const { api } = useSignedIn();
  const [{ about, container, period }, set] = useRouteQuery(defaults);
  const [opened] = useState(() => Date.now());
  const isAsked = about !== '' && container !== '';
  const length = lengths[period];
  const from = length === undefined ? {} : { from: new Date(opened - length).toISOString() };
  const { data, error, reload } = useLoad(`about ${about} ${container} ${period}`, async (signal) =>
    isAsked ? aboutSubject(api, { subject: about, container, ...from, maxEntries, signal }) : undefined,
  );
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>About a subject</h1>
          <p className="quiet">
            The plaintext that a subject has received, and everyone who has received its data
          </p>
        </div>
        <div className="actions">{choice}</div>
      </header>
      <QuestionForm about={about} container={container} ask={set} />
      <Choice
        label="Period"
        value={length === undefined ? 'all' : period}
        options={[
          ['30d', '30 days'],
          ['365d', '1 year'],
          ['all', 'All time'],
        ]}
        choose={(next) => set({ period: next })}
      />
      {error !== undefined && <ErrorNotice error={error} retry={reload} />}
      {!isAsked && (
        <div className="empty">
          <Icon name="people" size={28} />
          <h2>Which subject?</h2>
          <p>Enter the subject of its sessions, such as user:42, and the container with the data about it.</p>
        </div>
      )}
      {isAsked && !data && error === undefined && <p className="fine">Loading…</p>}
      {data && <Found {...data} about={about} container={container} />}
    </div>
  );
}

interface FormProps {
  readonly about: string;
  readonly container: string;
  readonly ask: (question: { about: string; container: string }) => void;
}

function QuestionForm({ about, container, ask }: FormProps) {
  const [texts, setTexts] = useState({ about, container });
  useEffect(() => setTexts({ about, container }), [about, container]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    ask({ about: texts.about.trim(), container: texts.container.trim() });
  };
  return (
    <form className="tools who-form" onSubmit={submit}>
      <TextInput
        className="grow"
        label="Subject"
        placeholder="user:42"
        value={texts.about}
        onChange={(event) => setTexts({ ...texts, about: event.currentTarget.value })}
        spellCheck={false}
      />
      <TextInput
        className="grow"
        label="Container with its data"
        placeholder="/customers/42/"
        value={texts.container}
        onChange={(event) => setTexts({ ...texts, container: event.currentTarget.value })}
        spellCheck={false}
      />
      <Button type="submit">Find</Button>
    </form>
  );
}

function Found({ seen, readers, gaps, omissions, about, container }: AboutSubject & Omit<FormProps, 'ask'>) {
  return (
    <>
      <Gaps gaps={gaps} />
      {omissions.length > 0 && (
        <section className="notice gaps" aria-label="Not searched">
          <Icon name="info" />
          <ul>
            {omissions.map((omission) => (
              <li key={omission}>{omission}</li>
            ))}
          </ul>
        </section>
      )}
      <ReadTable
        name="seen"
        title={`${plural(seen.length, 'token')} seen by ${about}`}
        head="Token"
        rows={seen.map((one) => ({
          ...one,
          cells: [one.token],
          shown: <ActivityLink q={one.token}>{one.token}</ActivityLink>,
        }))}
      />
      <ReadTable
        name="readers"
        title={`${plural(readers.length, 'reader')} of ${container}`}
        head="Reader"
        rows={readers.map((one) => ({
          ...one,
          cells: [one.id ?? one.kind, one.application_id ?? '', one.person?.subject ?? one.subject ?? ''],
          shown: (
            <>
              <Actor actor={one} />
              {one.kind !== 'application' && one.id !== undefined && (
                <ActivityLink q={one.id}> {shortId(one.id)}</ActivityLink>
              )}
              {one.subject !== undefined && (
                <>
                  {' '}
                  for <bdi>{one.subject}</bdi>
                </>
              )}
            </>
          ),
        }))}
      />
      <p className="fine">
        Only plaintext counts; masked and redacted data is left out. A reader is listed if a response
        contained a token that is in the container now, or that was created in it or moved into it.
      </p>
    </>
  );
}

function ActivityLink({ q, children }: { q: string; children: ReactNode }) {
  const query = new URLSearchParams({ q, period: 'all' });
  return (
    <a className="link" href={`${href('activity')}?${query}`}>
      <bdi>{children}</bdi>
    </a>
  );
}

interface TableProps {
  /** Name of the file. */
  readonly name: string;
  readonly title: string;
  readonly head: string;
  readonly rows: readonly (Reads & { readonly cells: readonly string[]; readonly shown: ReactNode })[];
}

const columns = ['Responses', 'First', 'Last'];
const heads: Readonly<Record<string, readonly string[]>> = { Reader: ['Reader', 'Application', 'Subject'] };

function ReadTable({ name, title, head, rows }: TableProps) {
  return (
    <section className="card read-table" aria-label={title}>
      <h2>{title}</h2>
      {rows.length > 0 && (
        <>
          <TableTools
            name={name}
            head={[...(heads[head] ?? [head]), ...columns]}
            rows={() =>
              rows.map(({ cells, responses, first, last }) => [...cells, String(responses), first, last])
            }
          />
          <Scrollable label={title}>
            <table>
              <thead>
                <tr>
                  {[head, ...columns].map((label) => (
                    <th key={label} scope="col">
                      {label}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map(({ cells, shown, responses, first, last }) => (
                  <tr key={cells.join(' ')}>
                    <th scope="row">{shown}</th>
                    <td>{formatNumber(responses)}</td>
                    <td>{formatDate(first)}</td>
                    <td>{formatDate(last)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scrollable>
        </>
      )}
    </section>
  );
}
