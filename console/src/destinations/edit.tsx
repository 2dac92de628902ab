/** Form for creating or editing a destination, with a dry run and a review of the change. */
import { Button, PasswordInput, Textarea, TextInput } from '@mantine/core';
import { type ChangeEvent, type FormEvent, useEffect, useRef, useState } from 'react';
import {
  type Destination,
  etagOf,
  type DestinationCreate as Fields,
  ValidationError,
} from '../../../sdk/src/sallyport.ts';
import { describeDestination } from '../../../src/domain/describe-destination.ts';
import { DestinationCreate } from '../../../src/domain/destination.ts';
import { check } from '../../../src/domain/validate.ts';
import type { Difference } from '../access/grants.ts';
import { type Errors, fieldError } from '../access/grants-editor.tsx';
import { Lines } from '../applications/review-dialog.tsx';
import { announce } from '../frame/announce.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { Icon } from '../frame/icons.tsx';
import { href, navigate } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { useUnsaved } from '../frame/unsaved.ts';
import { DryRun } from './dry-run.tsx';
import {
  emptyRequest,
  entriesOf,
  RemoveButton,
  type RequestDraft,
  RequestEditor,
  requestDraft,
  requestOf,
} from './request-editor.tsx';

interface Header {
  readonly name: string;
  readonly value: string;
}

interface Draft {
  readonly name: string;
  readonly origin: string;
  readonly timeout: string;
  readonly requests: readonly RequestDraft[];
  /** Replace the stored headers, whose values are unknown. Undefined if those remain. */
  readonly headers: readonly Header[] | undefined;
  readonly ca: string;
  /** A destination is read without its private key. If the certificate is unchanged, the stored key remains. */
  readonly client_certificate: string;
  /** One per line. */
  readonly ignored_headers: string;
  /** Fields that the editor does not show. They are sent unchanged. */
  readonly others: Partial<Pick<Destination, 'max_in_flight'>>;
}

function draftOf(destination: Destination | undefined): Draft {
  const { name = '', origin = '', timeout = 25, ca = '', client_certificate = '' } = destination ?? {};
  const requests = destination ? destination.requests.map(requestDraft) : [emptyRequest];
  const headers = destination && destination.header_names.length > 0 ? undefined : [];
  const { max_in_flight, ignored_headers: ignored = [] } = destination ?? {};
  const lists = { ignored_headers: ignored.join('\n'), others: { ...(max_in_flight && { max_in_flight }) } };
  return { name, origin, timeout: String(timeout), requests, headers, ca, client_certificate, ...lists };
}

/** Checks the draft with the schema of the service. */
function fieldsOf(draft: Draft): {
  fields?: Fields;
  errors: Errors;
} {
  const { name, origin, timeout, requests, headers, ca, client_certificate } = draft;
  const checked = check(DestinationCreate, {
    name: name.trim(),
    origin: origin.trim(),
    timeout: Number(timeout),
    requests: requests.map(requestOf),
    headers: headers && Object.fromEntries(headers.map((each) => [each.name.trim(), each.value])),
    ca: ca.trim() || undefined,
    client_certificate: client_certificate.trim() || undefined,
    ignored_headers: entriesOf(draft.ignored_headers),
    ...draft.others,
  });
  if ('data' in checked) return { fields: checked.data as Fields, errors: {} };
  return {
    errors: Object.fromEntries(checked.faults.map(({ path, message }) => [path.join('.'), [message]])),
  };
}

export function EditDestination({ destination: loaded }: { destination?: Destination }) {
  const { api } = useSignedIn();
  const [destination, setDestination] = useState(loaded);
  const initial = draftOf(destination);
  const [draft, setDraft] = useState(initial);
  const [errors, setErrors] = useState<Errors>({});
  const [reviewing, setReviewing] = useState(false);
  const { fields, errors: local } = fieldsOf(draft);
  const form = useRef<HTMLFormElement>(null);
  const isChanged = JSON.stringify(draft) !== JSON.stringify(initial);
  const markSaved = useUnsaved(isChanged, () => {});
  const back = destination ? href('destinations', destination.id) : href('destinations');
  const change = (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part }));
  const after = fields && withNames(fields, destination);
  const review = (event: FormEvent) => {
    event.preventDefault();
    setErrors(local);
    setReviewing(fields !== undefined);
  };
  const firstError = Object.keys(errors)[0];
  useEffect(() => {
    if (firstError !== undefined) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [firstError]);
  const save = async () => {
    const body = fields as Fields;
    try {
      const saved = destination
        ? await api.destinations.update(destination.id, body, { ifMatch: etagOf(destination) })
        : await api.destinations.create(body);
      announce(`${saved.name} saved.`);
      markSaved();
      // The form stays if the user returns to its address before the browser reports the change of it.
      setReviewing(false);
      setDestination(saved);
      setDraft(draftOf(saved));
      navigate('destinations', saved.id);
    } catch (failure) {
      if (!(failure instanceof ValidationError)) throw failure;
      setErrors(failure.errors);
      setReviewing(false);
    }
  };
  return (
    <div className="page">
      <a className="back" href={back}>
        <Icon name="back" size={14} /> {destination?.name ?? 'Destinations'}
      </a>
      <h1>{destination ? `Edit ${destination.name}` : 'Create a destination'}</h1>
      <div className="columns">
        <form ref={form} className="stack-wide" onSubmit={review}>
          <Service draft={draft} errors={errors} change={change} isNew={!destination} />
          <Requests draft={draft} errors={errors} change={change} />
          <Secrets draft={draft} errors={errors} change={change} stored={destination} />
          <div className="foot">
            <Button component="a" variant="default" href={back}>
              Cancel
            </Button>
            <Button type="submit">{destination ? 'Review changes' : 'Review and create'}</Button>
          </div>
        </form>
        <aside className="card sticky" aria-label="Dry run">
          <h2>Dry run</h2>
          {after ? (
            <DryRun key={JSON.stringify(after.requests)} destination={after} />
          ) : (
            <p className="fine">Complete the form to try a request.</p>
          )}
        </aside>
      </div>
      {reviewing && fields && after && (
        <ConfirmDialog
          title={destination ? 'Review changes' : 'Create this destination?'}
          close={() => setReviewing(false)}
          cancel="Continue editing"
          action={destination ? 'Save' : 'Create'}
          run={save}
          disabled={!isChanged && destination !== undefined}
          size={560}
        >
          <Lines changes={changesOf(destination, after)} />
          {destination && fields.headers && <p className="fine">The values of all headers are replaced.</p>}
          {fields.client_certificate?.includes('PRIVATE KEY') && (
            <p className="fine">The client certificate and its private key are replaced.</p>
          )}
        </ConfirmDialog>
      )}
    </div>
  );
}

/** The destination as it will be returned. */
function withNames(fields: Fields, stored: Destination | undefined): Destination {
  const header_names = fields.headers ? Object.keys(fields.headers) : (stored?.header_names ?? []);
  return { ...(fields as Destination), header_names };
}

interface PartProps {
  readonly draft: Draft;
  readonly errors: Errors;
  readonly change: (part: Partial<Draft>) => void;
}

type TextField = 'name' | 'origin' | 'timeout' | 'ca' | 'client_certificate' | 'ignored_headers';

/** The properties that connect an input with a field of the draft. */
function bind(name: TextField, { draft, errors, change }: PartProps) {
  return {
    value: draft[name],
    error: fieldError(errors, name),
    onChange: (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) =>
      change({ [name]: event.currentTarget.value }),
  };
}

function Service({ isNew, ...props }: PartProps & { isNew: boolean }) {
  const path = `/proxy/${props.draft.name || 'NAME'}/…`;
  return (
    <>
      <TextInput
        label="Name"
        description={`Callers send requests to ${path}`}
        placeholder="payments"
        {...bind('name', props)}
      />
      <TextInput
        label="Origin"
        description="Cannot be changed later."
        placeholder="https://api.payments.example"
        readOnly={!isNew}
        {...bind('origin', props)}
      />
      <TextInput label="Timeout in seconds" type="number" min={1} max={600} {...bind('timeout', props)} />
    </>
  );
}

function Requests({ draft: { requests }, errors, change }: PartProps) {
  const error = (index: number, field: string) => {
    const path = `requests.${index}`;
    if (field !== '') return fieldError(errors, `${path}.${field}`);
    return (errors[path] ?? errors[`${path}.placeholders`])?.[0];
  };
  return (
    <section className="card stack">
      <h2>Requests</h2>
      <p className="fine">What callers may send. Other requests are rejected.</p>
      {requests.map((request, index) => (
        <RequestEditor
          key={index}
          request={request}
          number={index + 1}
          error={(field) => error(index, field)}
          change={(next) => change({ requests: requests.map((each, at) => (at === index ? next : each)) })}
          remove={
            requests.length > 1
              ? () => change({ requests: requests.filter((_, at) => at !== index) })
              : undefined
          }
        />
      ))}
      <div>
        <Button
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => change({ requests: [...requests, emptyRequest] })}
        >
          Add request
        </Button>
      </div>
    </section>
  );
}

function Secrets({ stored, ...props }: PartProps & { stored: Destination | undefined }) {
  const pem = { rows: 3, spellCheck: false, classNames: { input: 'mono' } };
  return (
    <section className="card stack">
      <h2>Connection</h2>
      <Headers {...props} names={stored?.header_names ?? []} />
      <Textarea
        label="Ignored headers"
        description="Headers that callers' libraries send and that are dropped, such as x-stainless-*, one per line."
        rows={2}
        spellCheck={false}
        {...bind('ignored_headers', props)}
      />
      <Textarea
        label="Client certificate"
        description={
          stored?.client_certificate
            ? 'The stored private key is not shown. To replace both, paste a certificate and its private key. Leave empty to remove them.'
            : 'Certificate and private key in PEM. The private key is never shown again.'
        }
        {...pem}
        {...bind('client_certificate', props)}
      />
      <Textarea
        label="CA certificates"
        description="In PEM, trusted instead of the public ones. Leave empty for the public ones."
        {...pem}
        {...bind('ca', props)}
      />
    </section>
  );
}

/** Values are write-only, so stored headers remain unchanged or are all replaced. */
function Headers({ draft, errors, change, names }: PartProps & { names: readonly string[] }) {
  const { headers } = draft;
  const set = (next: readonly Header[] | undefined) => change({ headers: next });
  const replace = (at: number, next: Header) =>
    set(headers?.map((each, index) => (index === at ? next : each)));
  return (
    <div className="stack-tight">
      <span className="field-label">Headers added to every request</span>
      <p className="fine">
        {headers ? 'Values are stored encrypted and never shown again.' : `Stored: ${names.join(', ')}`}
      </p>
      {headers?.map((header, index) => (
        <div className="rule-line removable" key={index}>
          <TextInput
            className="grow"
            aria-label={`Name of header ${index + 1}`}
            placeholder="authorization"
            spellCheck={false}
            value={header.name}
            onChange={(event) => replace(index, { ...header, name: event.currentTarget.value })}
          />
          <PasswordInput
            className="grow"
            aria-label={`Value of header ${index + 1}`}
            autoComplete="off"
            value={header.value}
            error={fieldError(errors, `headers.${header.name.trim()}`)}
            onChange={(event) => replace(index, { ...header, value: event.currentTarget.value })}
          />
          <RemoveButton
            label={`Remove header ${index + 1}`}
            remove={() => set(headers.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      <div>
        <Button
          variant="subtle"
          size="compact-xs"
          onClick={() =>
            set(headers ? [...headers, { name: '', value: '' }] : names.map((name) => ({ name, value: '' })))
          }
        >
          {headers ? 'Add header' : 'Replace headers'}
        </Button>
        {headers && names.length > 0 && (
          <Button variant="subtle" size="compact-xs" onClick={() => set(undefined)}>
            Keep stored headers
          </Button>
        )}
      </div>
    </div>
  );
}

function changesOf(before: Destination | undefined, after: Destination): Difference[] {
  const lines = (one: Destination) => [`name ${one.name}`, ...describeDestination(one)];
  const [old, next] = [before ? lines(before) : [], lines(after)];
  return [
    ...old.filter((line) => !next.includes(line)).map((line) => ({ kind: 'removed' as const, text: line })),
    ...next.filter((line) => !old.includes(line)).map((line) => ({ kind: 'added' as const, text: line })),
  ];
}
