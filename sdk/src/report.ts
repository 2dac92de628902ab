/** The access report for auditors: CSV files, a page to print, and a manifest that the service signs. */
import { ReadCounts } from './about.ts';
import type { AccessRule, ApplicationKey, LogEntry, LogGap } from './api.ts';
import type { Sallyport } from './client.ts';
import { NotFoundError } from './errors.ts';

export interface ReportOptions {
  /** Start and end of the period, as ISO 8601 date-times. */
  readonly from: string;
  readonly to: string;
  /** The output of `audit verify --json`, if it was run. */
  readonly verification?: { readonly ok: boolean; readonly text: string } | undefined;
  /** Called for every hundredth row. May throw to stop. */
  readonly progress?: (title: string, rows: number) => Promise<void>;
}

/** More rows would exceed the memory of a browser. */
const maxRows = 200_000;
/** Rows of each table in the page to print. The CSV file has all. */
const printedRows = 500;
/** Requests at a time. */
const concurrency = 8;

type Row = readonly string[];
interface Table {
  /** Name of the file, title and explanation. */
  readonly about: readonly [file: string, title: string, text: string];
  /** The permission without which the table is left out. */
  readonly needs: string;
  readonly head: string;
  readonly rows: () => AsyncIterable<Row>;
}

export interface ReportFile {
  readonly name: string;
  readonly text: string;
}

/**
 * Returns the files of a report: who has access, what changed, who read plaintext and for what purpose, unused grants
 * with a risk, and keys without an end. Reads all pages of every list. `sallyport audit verify` checks the files.
 * Requires `access:review`. Tables that need another permission are left out without it.
 */
export async function accessReport(service: Sallyport, options: ReportOptions): Promise<ReportFile[]> {
  const { from, to } = options;
  const files = await filesOf(service, options);
  const manifest = await service.access.createReport({
    from,
    to,
    files: await Promise.all(files.map(hashed)),
  });
  return [...files, { name: 'manifest.json', text: `${JSON.stringify(manifest, null, 2)}\n` }];
}

async function hashed({ name, text }: ReportFile) {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return { name, sha256: Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('') };
}

async function filesOf(source: Sallyport, options: ReportOptions): Promise<ReportFile[]> {
  const held = new Set(await source.ownPermissions());
  const files: ReportFile[] = [];
  const parts: string[] = [];
  for (const table of tablesOf(source, options, held)) {
    const [name, title] = table.about;
    const rows: Row[] = [];
    let found = 0;
    // Reads to the end, because later tables need all applications.
    for await (const row of held.has(table.needs) ? table.rows() : []) {
      if (rows.length <= maxRows) rows.push(row.map(visible));
      if (++found % 100 === 1) await options.progress?.(title, found);
    }
    if (held.has(table.needs))
      files.push({ name, text: toCsv([table.head.split(', '), ...rows.slice(0, maxRows)]) });
    parts.push(tableHtml(table, rows, held.has(table.needs)));
  }
  const { from, to, verification } = options;
  const { gaps = [] } = held.has('log:read')
    ? await source.logs.list({ from, to, transform: 'reveal', size: 1 })
    : {};
  if (verification) files.push({ name: 'verification.json', text: verification.text });
  return [{ name: 'report.html', text: pageHtml(options, gaps, parts) }, ...files];
}

/**
 * Operations that change who has access. Sessions are left out: they are short-lived, and the log has them. So is
 * `key.exchange`, which gives no one more access than `trusted_issuers` do.
 */
const changes = 'create update delete expire quarantine release regenerate key.create key.delete'
  .split(' ')
  .map((name) => `application.${name}`)
  .concat('key.revoke');
/** The risks that are reported. */
const reported: readonly string[] = ['management', 'reveal', 'change'];

/** The columns of `actorOf`. */
const actorHead = 'By, By id, Person, Subject, Authorized by, Authorizer id';
const reportedNote =
  'Rows with Reported by are decisions that this application recorded: Sallyport did not see what it returned.';

function tablesOf(source: Sallyport, { from, to }: ReportOptions, held: ReadonlySet<string>): Table[] {
  const names = new Map<string, string>();
  const nameOf = (id = '') => names.get(id) ?? id;
  // Names of applications are not unique, so their ids follow.
  const actorOf = ({ actor: { application_id = '', authorized_by = '', ...actor } }: LogEntry) => [
    nameOf(application_id) || actor.kind,
    application_id,
    personOf(actor),
    actor.subject ?? '',
    nameOf(authorized_by),
    authorized_by,
  ];
  const lasting: string[] = [];
  const reads: Row[] = [];

  async function* access() {
    for await (const application of source.applications.all()) {
      const { id, name, type, expires_at, last_used_at = 'never' } = application;
      names.set(id, name);
      if (expires_at === undefined) lasting.push(id);
      yield* grantRows([`${type} application`, name, id, ''], application, last_used_at);
    }
    if (!held.has('session:read')) return;
    for await (const session of source.sessions.all({ state: 'active' })) {
      const { id, kind, application_id, subject = '' } = session;
      yield* grantRows([kind, nameOf(application_id), id, subject], session, '');
    }
  }

  async function* changed() {
    const rows: Row[] = [];
    for (const operation of changes)
      for await (const entry of source.logs.all({ from, to, operation, result: 'success' })) {
        const { at, entity, difference = {}, request_id = '' } = entry;
        const change = JSON.stringify(difference);
        const of = [nameOf(entity?.id), entity?.id ?? ''];
        rows.push([at, ...actorOf(entry), operation, ...of, change, request_id]);
      }
    yield* rows.sort(([a = ''], [b = '']) => (a < b ? 1 : -1));
  }

  async function* readers() {
    const found = new ReadCounts<{ readonly cells: Row }>();
    for await (const entry of source.logs.all({ from, to, transform: 'reveal' })) {
      const { at, count = 1, purpose = 'none stated', reported_by = '', request_id = '' } = entry;
      const cells = [...actorOf(entry), purpose, reported_by];
      found.add(JSON.stringify(cells), { cells }, entry);
      const { ids = [], container = '' } = entry.resource ?? {};
      if (reads.length <= maxRows)
        reads.push([at, ...cells, entry.operation, container, ids.join(' '), String(count), request_id]);
    }
    for (const { cells, responses, first, last } of found.list().sort((a, b) => b.responses - a.responses))
      yield [...cells, String(responses), first, last];
  }

  async function* unused() {
    const rows: Row[] = [];
    for await (const { application, unused } of source.access.adviceOnAll())
      for (const { risk, permission, container, transform, rule } of unused)
        if (reported.includes(risk))
          rows.push([risk, application.name, application.id, permission, container, transform, String(rule)]);
    yield* rows.sort(([a = ''], [b = '']) => reported.indexOf(a) - reported.indexOf(b));
  }

  async function* endless() {
    for (let at = 0; at < lasting.length; at += concurrency) {
      const ids = lasting.slice(at, at + concurrency);
      const lists = await Promise.all(ids.map((id) => source.applications.keys(id).catch(ifDeleted)));
      for (const [index, id] of ids.entries())
        for (const { expires_at, ending, created_at, last_used_at = 'never' } of lists[index] ?? [])
          if (expires_at === undefined) yield [nameOf(id), id, `…${ending}`, created_at, last_used_at];
    }
  }

  return [
    {
      about: ['access.csv', 'Who has access', 'Grants of all applications and active sessions at that time.'],
      needs: 'application:read',
      head: 'Kind, Name, Id, Subject, Grant, Permissions, Where, Transform, Purpose, Expires, Quarantined, Last used',
      rows: access,
    },
    {
      about: ['changes.csv', 'What changed', 'Changes of applications and keys in the period.'],
      needs: 'log:read',
      head: `Time, ${actorHead}, Operation, Of, Id, Change, Request`,
      rows: changed,
    },
    {
      about: [
        'plaintext-readers.csv',
        'Who read plaintext, and why',
        `Responses in the period, by purpose. ${reportedNote}`,
      ],
      needs: 'log:read',
      head: `${actorHead}, Purpose, Reported by, Responses, First, Last`,
      rows: readers,
    },
    {
      about: [
        'plaintext-reads.csv',
        'Responses with plaintext',
        `Each of them, newest first. ${reportedNote}`,
      ],
      needs: 'log:read',
      head: `Time, ${actorHead}, Purpose, Reported by, Operation, Container, Tokens, Responses, Request`,
      async *rows() {
        yield* reads;
      },
    },
    {
      about: ['unused-grants.csv', 'Unused grants with a risk', 'Not used in the 90 days before the report.'],
      needs: 'access:review',
      head: 'Risk, Application, Id, Permission, Container, Transform, Rule',
      rows: unused,
    },
    {
      about: ['keys-without-end.csv', 'Keys without an end', 'Neither they nor their applications expire.'],
      needs: 'application:read',
      head: 'Application, Id, Key, Created, Last used',
      rows: endless,
    },
  ];
}

/** An application that was deleted since the list was read has no keys. */
function ifDeleted(error: unknown): ApplicationKey[] {
  if (error instanceof NotFoundError) return [];
  throw error;
}

interface Grants {
  readonly permissions: readonly string[];
  readonly rules: readonly AccessRule[];
  readonly expires_at?: string;
  readonly quarantined_at?: string;
}

/** Names are not unique, so the email address or the subject follows. */
function personOf({ person }: LogEntry['actor']): string {
  const { subject = '', name, email = subject } = person ?? {};
  return name === undefined ? email : `${name} <${email}>`;
}

function* grantRows(subject: Row, grants: Grants, lastUsed: string): Generator<Row> {
  const { permissions, rules, expires_at = 'never', quarantined_at = '' } = grants;
  const rest = (end = expires_at) => [end < expires_at ? end : expires_at, quarantined_at, lastUsed];
  if (permissions.length > 0)
    yield [...subject, 'permissions', permissions.join(' '), '/', 'mask', '', ...rest()];
  for (const [index, { container, conditions = [], transform, ...rule }] of rules.entries()) {
    const all = conditions.map(({ attribute, operator, value }) => `${attribute} ${operator} ${value}`);
    const where = container ?? (all.join(' and ') || '/');
    const purpose = rule.require_purpose ? 'required' : '';
    yield [
      ...subject,
      `rule ${index + 1}`,
      rule.permissions.join(' '),
      where,
      transform,
      purpose,
      ...rest(rule.expires_at),
    ];
  }
}

/** Escapes characters that are invisible or change the direction of text. */
function visible(text: string): string {
  const escaped = (character: string) => `\\u{${character.codePointAt(0)?.toString(16)}}`;
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escaped);
}

/** Text that a spreadsheet would run as a formula: the start of a cell, and what follows a separator of some language. */
const formula = /^\s*[=+\-@＝＋－＠]|^[\t\r]/;
const laterFormula = /[,;|\t\r\n][ "]*(?=[=+\-@＝＋－＠])/g;

/** Rows as CSV (RFC 4180). An apostrophe comes before a formula. */
export function toCsv(rows: readonly (readonly string[])[], separator = ','): string {
  const safe = (text: string) => text.replace(laterFormula, "$&'").replace(formula, "'$&");
  const cell = (text: string) => `"${safe(text).replaceAll('"', '""')}"`;
  return rows.map((row) => `${row.map(cell).join(separator)}\r\n`).join('');
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function html(text: string): string {
  return text.replace(/[&<>"]/g, (character) => entities[character] as string);
}

function tableHtml(
  { about: [file, title, text], needs, head }: Table,
  rows: readonly Row[],
  held: boolean,
): string {
  const total = `${Math.min(rows.length, maxRows)} ${rows.length === 1 ? 'row' : 'rows'}`;
  // Only the tables from the log have a period.
  const rest = needs === 'log:read' ? 'choose a shorter period' : 'the API lists the others';
  const more = rows.length > maxRows ? `More than that were found: ${rest}.` : '';
  const printed = rows.length > printedRows ? `, of which the first ${printedRows} are printed here` : '';
  const note = held
    ? `${text} ${file} has ${total}${printed}. ${more}`
    : `Not included: the key lacks ${needs}.`;
  const line = (tag: string, row: Row) =>
    `<tr>${row.map((cell) => `<${tag}>${html(cell)}</${tag}>`).join('')}</tr>`;
  const body = rows.slice(0, printedRows).map((row) => line('td', row));
  const table = `<table><thead>${line('th', head.split(', '))}</thead><tbody>${body.join('\n')}</tbody></table>`;
  const scroll = `<div tabindex="0" role="region" aria-label="${title}">${table}</div>`;
  return `<section><h2>${title}</h2><p>${note}</p>${rows.length > 0 ? scroll : ''}</section>`;
}

const style = `:root { color-scheme: light; font: 13px/1.45 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem }
div { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 11px }
th, td { border-bottom: 1px solid #ccc; padding: 3px 6px; text-align: left; vertical-align: top; overflow-wrap: anywhere; min-width: 5em }
@page { size: A4 landscape; margin: 14mm; @bottom-left { content: "Sallyport access report"; font-size: 8pt } @bottom-right { content: counter(page) " / " counter(pages); font-size: 8pt } }
@media print { body { margin: 0; max-width: none } div { overflow: visible } table { font-size: 7pt; table-layout: fixed } th, td { min-width: 0 } tr { break-inside: avoid } h2 { break-after: avoid } }`;

function pageHtml({ from, to, verification }: ReportOptions, gaps: readonly LogGap[], parts: Row): string {
  const verified = verification
    ? `It was verified before: it is ${verification.ok ? '' : 'NOT '}valid. The result is in verification.json.`
    : 'It was not verified for this report.';
  const missing = gaps.map(({ reason, from = 'its start', to = 'now' }) => {
    const what = reason === 'archived' ? 'Entries were archived' : 'Some reads were not recorded';
    return `<li>${what} from ${from} to ${to}.</li>`;
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Access report</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><style>${style}</style></head><body><main>
<h1>Access report</h1><p>Period: ${html(from)} to ${html(to)}. Created: ${new Date().toISOString()}. All times are UTC.</p>
<section><h2>Audit log</h2><p>${verified} An operator verifies the log and these files with <code>sallyport audit verify</code> and the name of this folder. manifest.json has the hashes of the files, and a signature.</p><ul>${missing.join('')}</ul></section>
${parts.join('\n')}
</main></body></html>
`;
}
