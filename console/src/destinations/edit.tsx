/** Form for creating or editing a destination, with a dry run and a review of the change. */
import { Button, Textarea } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { type Destination, etagOf, type DestinationCreate as Fields } from '../../../sdk/src/sallyport.ts';
import { describeDestination } from '../../../src/domain/describe-destination.ts';
import { DestinationCreate } from '../../../src/domain/destination.ts';
import { check } from '../../../src/domain/validate.ts';
import type { Difference } from '../access/grants.ts';
import { Lines } from '../applications/review-dialog.tsx';
import { announce } from '../frame/announce.ts';
import { ConfirmDialog } from '../frame/confirm-dialog.tsx';
import { Icon } from '../frame/icons.tsx';
import { href, navigate } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { useUnsaved } from '../frame/unsaved.ts';
import { DryRun } from './dry-run.tsx';

const example = {
  name: 'payments',
  origin: 'https://api.payments.example',
  timeout: 25,
  requests: [
    {
      method: 'POST',
      path: '/v1/charges',
      placeholders: [{ at: '/card/number', from: '/number' }],
      reply: ['/id', '/status'],
    },
  ],
};

/** The fields that can be edited, as JSON. Secrets are not among them. */
function definitionOf(destination: Destination | undefined): string {
  const { name, origin, timeout, ca, requests } = destination ?? { ...example, ca: undefined };
  return JSON.stringify({ name, origin, timeout, ca, requests }, undefined, 2);
}

/** Checks the definition with the schema of the service. */
function parse(json: string): { fields?: Fields; fault?: string } {
  try {
    const checked = check(DestinationCreate, JSON.parse(json));
    if ('data' in checked) return { fields: checked.data as Fields };
    return { fault: checked.faults.map(({ path, message }) => `${path.join('.')} ${message}`).join('; ') };
  } catch (error) {
    return { fault: (error as Error).message };
  }
}

export function EditDestination({ destination }: { destination?: Destination }) {
  const { api } = useSignedIn();
  const [definition, setDefinition] = useState(() => definitionOf(destination));
  const [reviewing, setReviewing] = useState(false);
  const { fields, fault } = parse(definition);
  const header_names = fields?.headers ? Object.keys(fields.headers) : (destination?.header_names ?? []);
  const isChanged = definition !== definitionOf(destination);
  const markSaved = useUnsaved(isChanged, () => {});
  const back = destination ? href('destinations', destination.id) : href('destinations');
  const review = (event: FormEvent) => {
    event.preventDefault();
    setReviewing(fields !== undefined);
  };
  const save = async () => {
    const given = fields as Fields;
    // Without the private key, the stored one is kept.
    const { client_certificate = destination?.client_certificate } = given;
    const body = { ...given, ...(client_certificate && { client_certificate }) };
    const saved = destination
      ? await api.destinations.update(destination.id, body, { ifMatch: etagOf(destination) })
      : await api.destinations.create(body);
    announce(`${saved.name} saved.`);
    markSaved();
    navigate('destinations', saved.id);
  };
  return (
    <div className="page">
      <a className="back" href={back}>
        <Icon name="back" size={14} /> {destination?.name ?? 'Destinations'}
      </a>
      <h1>{destination ? `Edit ${destination.name}` : 'Create a destination'}</h1>
      <div className="columns">
        <form className="stack-wide" onSubmit={review}>
          <Textarea
            label="Definition"
            description='JSON. Set secret headers with "headers": their values are stored encrypted and never shown again. Without it, stored headers are kept. The origin cannot be changed later.'
            rows={18}
            spellCheck={false}
            value={definition}
            error={fault}
            onChange={(event) => setDefinition(event.currentTarget.value)}
          />
          <div className="foot">
            <Button component="a" variant="default" href={back}>
              Cancel
            </Button>
            <Button type="submit">{destination ? 'Review changes' : 'Review and create'}</Button>
          </div>
        </form>
        <aside className="card sticky" aria-label="Dry run">
          <h2>Dry run</h2>
          {fields && <DryRun key={definition} destination={{ ...(fields as Destination), header_names }} />}
        </aside>
      </div>
      {reviewing && fields && (
        <ConfirmDialog
          title={destination ? 'Review changes' : 'Create this destination?'}
          close={() => setReviewing(false)}
          cancel="Continue editing"
          action={destination ? 'Save' : 'Create'}
          run={save}
          disabled={!isChanged && destination !== undefined}
          size={560}
        >
          <Lines changes={changesOf(destination, { ...(fields as Destination), header_names })} />
          {destination && fields.headers && <p className="fine">The values of all headers are replaced.</p>}
        </ConfirmDialog>
      )}
    </div>
  );
}

function changesOf(before: Destination | undefined, after: Destination): Difference[] {
  const lines = (one: Destination) => [`name ${one.name}`, ...describeDestination(one)];
  const { client_certificate = before?.client_certificate } = after;
  const next = lines({ ...after, ...(client_certificate && { client_certificate }) });
  const old = before ? lines(before) : [];
  return [
    ...old.filter((line) => !next.includes(line)).map((line) => ({ kind: 'removed' as const, text: line })),
    ...next.filter((line) => !old.includes(line)).map((line) => ({ kind: 'added' as const, text: line })),
  ];
}
