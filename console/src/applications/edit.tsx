/** Writing an Application, with what its key would see beside it. */
import { Button, Textarea, TextInput } from '@mantine/core';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { type Application, ValidationError } from '../../../sdk/src/sallyport.ts';
import { complaintAbout, type Errors, GrantsEditor } from '../access/editor.tsx';
import { differences } from '../access/grants.ts';
import { Preview } from '../access/preview.tsx';
import { announce } from '../frame/announce.ts';
import { Icon } from '../frame/icons.tsx';
import { go, href } from '../frame/place.ts';
import { Problem } from '../frame/problem.tsx';
import { holds, useSignedIn } from '../frame/signed-in.ts';
import { useUnsaved } from '../frame/unsaved.ts';
import {
  blank,
  carriedOver,
  type Draft,
  draftOf,
  endOf,
  lifetimes,
  originsOf,
  places,
  presets,
} from './draft.ts';
import { KeyOnce } from './key-once.tsx';
import { Review } from './review.tsx';

export function EditApplication({ application }: { application?: Application }) {
  const { api, roll } = useSignedIn();
  const [before, setBefore] = useState(application);
  const [meanwhile, setMeanwhile] = useState<Application>();
  const [draft, setDraft] = useState<Draft>(() => (application ? draftOf(application) : blank));
  const [errors, setErrors] = useState<Errors>({});
  const [error, setError] = useState<unknown>();
  const [reviewing, setReviewing] = useState(false);
  const [made, setMade] = useState<{ id: string; key: string }>();
  const start = before ? draftOf(before) : blank;
  const letGo = useUnsaved(!made && JSON.stringify(draft) !== JSON.stringify(start));
  const form = useRef<HTMLFormElement>(null);
  const change = (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part }));
  const review = (event: FormEvent) => {
    event.preventDefault();
    const local = localErrors(draft);
    setErrors(local);
    setError(undefined);
    setReviewing(Object.keys(local).length === 0);
  };
  const firstError = Object.keys(errors)[0];
  useEffect(() => {
    if (firstError !== undefined) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [firstError]);
  const save = async () => {
    const { name, type, permissions, rules } = draft;
    const origins = originsOf(draft);
    const body = {
      name,
      permissions: [...permissions],
      rules: [...rules],
      ...(origins && { allowed_origins: origins }),
    };
    try {
      if (before) {
        const now = await api.applications.get(before.id);
        if (differences(before, now).length > 0) return setMeanwhile(now);
        roll.put(await api.applications.update(before.id, body));
        announce(`${name} is saved.`);
        letGo();
        return go('applications', before.id);
      }
      const end = endOf(draft, Date.now());
      const { key, ...created } = await api.applications.create({
        ...body,
        type,
        ...(end && { expires_at: end }),
      });
      roll.put(created);
      announce(`${name} is created. Its key is shown this once.`);
      setReviewing(false);
      setMade({ id: created.id, key });
    } catch (failure) {
      setReviewing(false);
      setErrors(failure instanceof ValidationError ? failure.errors : {});
      setError(failure);
    }
  };
  const lookAgain = (now: Application) => {
    if (before) setDraft(carriedOver(draft, before, now));
    setBefore(now);
    setMeanwhile(undefined);
  };
  return (
    <div className="page">
      <a className="back" href={application ? href('applications', application.id) : href('applications')}>
        <Icon name="back" size={14} /> {application ? application.name : 'Applications'}
      </a>
      <h1>{application ? `Edit ${application.name}` : 'Create an Application'}</h1>
      <div className="columns">
        <form ref={form} className="stack-wide" onSubmit={review}>
          {error !== undefined && <Problem error={error} />}
          {!application && <Where draft={draft} change={change} />}
          <TextInput
            label="Name"
            placeholder="What people will call it"
            value={draft.name}
            error={complaintAbout(errors, 'name')}
            onChange={(event) => change({ name: event.currentTarget.value })}
            {...(application && { 'data-autofocus': true })}
          />
          <section className="card stack">
            <h2>Access</h2>
            <GrantsEditor owner={draft.type} grants={draft} errors={errors} change={change} />
          </section>
          {draft.type === 'public' && (
            <Textarea
              label="Pages that may use its key"
              description="One origin a line, such as https://shop.example.com. None means all."
              rows={2}
              value={draft.origins}
              error={complaintAbout(errors, 'allowed_origins')}
              onChange={(event) => change({ origins: event.currentTarget.value })}
            />
          )}
          {!application && (
            <Expiry draft={draft} change={change} error={complaintAbout(errors, 'expires_at')} />
          )}
          <div className="foot">
            <Button
              component="a"
              variant="default"
              href={application ? href('applications', application.id) : href('applications')}
            >
              Cancel
            </Button>
            <Button type="submit">{application ? 'Review the changes' : 'Review and create'}</Button>
          </div>
        </form>
        <aside className="card sticky">
          <h2>What would this key see?</h2>
          <Preview holder="application" before={before} after={draft} />
        </aside>
      </div>
      {reviewing && (
        <Review
          draft={draft}
          application={before}
          meanwhile={meanwhile}
          lookAgain={lookAgain}
          save={save}
          close={() => setReviewing(false)}
        />
      )}
      {made && (
        <KeyOnce
          secret={made.key}
          name={draft.name}
          note="Give it to the program that needs it."
          close={() => go('applications', made.id)}
        />
      )}
    </div>
  );
}

function localErrors({ name, permissions, rules, expiry }: Draft): Errors {
  return {
    ...(name.trim() === '' && { name: ['Give it a name.'] }),
    ...(permissions.length + rules.length === 0 && {
      permissions: ['Grant it something: a rule, or a permission.'],
    }),
    ...(expiry !== '' &&
      !/^\d+$/.test(expiry) &&
      Number.isNaN(Date.parse(expiry)) && { expires_at: ['This is not a date.'] }),
  };
}

interface PartProps {
  readonly draft: Draft;
  readonly change: (part: Partial<Draft>) => void;
}

function Where({ draft, change }: PartProps) {
  const signedIn = useSignedIn();
  const fit = presets.filter(({ permissions }) =>
    permissions.every((permission) => holds(signedIn, permission) !== false),
  );
  return (
    <>
      <fieldset className="choices choices-wide">
        <legend className="field-label">Where does this code run?</legend>
        {places.map(({ type, icon, title, text }) => (
          <label key={type} className="choice">
            <input
              type="radio"
              name="type"
              checked={draft.type === type}
              onChange={() => change({ type, permissions: [], rules: [] })}
            />
            <Icon name={icon} />
            <span>
              <strong>{title}</strong>
              <small>{text}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <div>
        <span className="field-label">Start from</span>
        <div className="chips">
          {fit.map(({ title, text, type, permissions, rules }) => (
            <button
              key={title}
              type="button"
              className="chip"
              title={text}
              onClick={() => change({ type, permissions, rules })}
            >
              <strong>{title}</strong> {text}
            </button>
          ))}
        </div>
      </div>
    </>
  );
}

function Expiry({ draft, change, error }: PartProps & { error: string | undefined }) {
  const custom = draft.expiry !== '' && !/^\d+$/.test(draft.expiry);
  return (
    <div>
      <span className="field-label">Expires</span>
      <div className="chips">
        {lifetimes.map(([label, value]) => (
          <button
            key={label}
            type="button"
            className="chip"
            aria-pressed={draft.expiry === value}
            onClick={() => change({ expiry: value })}
          >
            {label}
          </button>
        ))}
        <input
          type="datetime-local"
          className={custom ? 'chip chip-on' : 'chip'}
          aria-label="At a moment of your own"
          value={custom ? draft.expiry : ''}
          onChange={(event) => change({ expiry: event.currentTarget.value })}
        />
      </div>
      {error && <p className="complaint">{error}</p>}
    </div>
  );
}
