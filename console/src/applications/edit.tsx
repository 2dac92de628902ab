/** Form for creating or editing an application, with an access preview. */
import { Button, Checkbox, Textarea, TextInput } from '@mantine/core';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { type Application, etagOf, ProblemError, ValidationError } from '../../../sdk/src/sallyport.ts';
import { differences } from '../access/grants.ts';
import { type Errors, fieldError, GrantsEditor } from '../access/grants-editor.tsx';
import { Preview } from '../access/preview.tsx';
import { announce } from '../frame/announce.ts';
import { ErrorNotice } from '../frame/error-notice.tsx';
import { Icon } from '../frame/icons.tsx';
import { href, navigate, parseRoute } from '../frame/route.ts';
import { useSignedIn } from '../frame/signed-in.ts';
import { useUnsaved } from '../frame/unsaved.ts';
import { type Draft, draftOf, emptyDraft, expiryDate, issuersOf, rebaseDraft, updateOf } from './draft.ts';
import { Expiry, expiryError } from './expiry.tsx';
import { keyNote, NewKeyDialog } from './new-key-dialog.tsx';
import { ReviewDialog } from './review-dialog.tsx';
import { readDraft, removeDraft, storeDraft } from './stored-draft.ts';
import { TypeChoice } from './type-choice.tsx';

export function EditApplication({ application }: { application?: Application }) {
  const { api, applications } = useSignedIn();
  const id = application?.id ?? 'new';
  const initial = application ? draftOf(application) : emptyDraft;
  const [restored, setRestored] = useState(() => readDraft(id));
  const [before, setBefore] = useState(restored ? restored.before : application);
  const [conflict, setConflict] = useState<Application>();
  const [draft, setDraft] = useState<Draft>(restored?.draft ?? initial);
  const [errors, setErrors] = useState<Errors>({});
  const [error, setError] = useState<unknown>();
  const [reviewing, setReviewing] = useState(
    () => restored !== undefined && parseRoute(location.hash).query.has('review'),
  );
  const [created, setCreated] = useState<{ id: string; key: string; note: string }>();
  const start = before ? draftOf(before) : emptyDraft;
  const unsaved = !created && JSON.stringify(draft) !== JSON.stringify(start);
  const markSaved = useUnsaved(unsaved, () => removeDraft(id));
  useEffect(() => {
    if (unsaved) storeDraft(id, { before, draft });
    else removeDraft(id);
  }, [id, unsaved, before, draft]);
  const discard = () => {
    setRestored(undefined);
    setBefore(application);
    setDraft(initial);
  };
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
  const save = async (): Promise<void> => {
    const { name, type } = draft;
    const body = updateOf(draft);
    const end = expiryDate(draft, Date.now());
    try {
      if (before) {
        const now = await api.applications.get(before.id);
        if (differences(before, now).length > 0) return setConflict(now);
        const expiry = draft.expiry === '' ? {} : { expires_at: end ?? 'never' };
        const change = { ...body, ...expiry };
        const saved = await api.applications.update(before.id, change, { ifMatch: etagOf(now) });
        applications.put(saved);
        announce(`${name} saved.`);
        markSaved();
        removeDraft(id);
        // The form stays if the user returns to its address before the browser reports the change of it.
        setReviewing(false);
        setBefore(saved);
        setDraft(draftOf(saved));
        return navigate('applications', before.id);
      }
      const {
        key,
        key_expires_at: keyEnd,
        ...saved
      } = await api.applications.create({
        ...body,
        type,
        ...(end && { expires_at: end }),
      });
      applications.put(saved);
      announce(`${name} created. The key is shown only once.`);
      setReviewing(false);
      setCreated({ id: saved.id, key, note: keyNote(keyEnd ?? saved.expires_at) });
    } catch (failure) {
      // Changed after the comparison above: compare again.
      if (failure instanceof ProblemError && failure.code === 'changed_meanwhile') return save();
      setReviewing(false);
      setErrors(failure instanceof ValidationError ? failure.errors : {});
      setError(failure);
    }
  };
  const rebase = (now: Application) => {
    if (before) setDraft(rebaseDraft(draft, before, now));
    setBefore(now);
    setConflict(undefined);
  };
  return (
    <div className="page">
      <a className="back" href={application ? href('applications', application.id) : href('applications')}>
        <Icon name="back" size={14} /> {application ? application.name : 'Applications'}
      </a>
      <h1>{application ? `Edit ${application.name}` : 'Create an application'}</h1>
      <div className="columns">
        <form ref={form} className="stack-wide" onSubmit={review}>
          {error !== undefined && <ErrorNotice error={error} />}
          {restored && (
            <div className="notice" role="status">
              <Icon name="edit" />
              <span>Your unsaved changes were restored.</span>
              <Button variant="default" size="compact-xs" onClick={discard}>
                Discard changes
              </Button>
            </div>
          )}
          {!application && <TypeChoice draft={draft} change={change} />}
          <TextInput
            label="Name"
            placeholder="For example: billing service"
            value={draft.name}
            error={fieldError(errors, 'name')}
            onChange={(event) => change({ name: event.currentTarget.value })}
            {...(application && { 'data-autofocus': true })}
          />
          <section className="card stack">
            <h2>Access</h2>
            <GrantsEditor owner={draft.type} grants={draft} errors={errors} change={change} />
          </section>
          {draft.type === 'public' && (
            <Textarea
              label="Allowed origins"
              description="One per line, such as https://shop.example.com. Leave empty to allow all."
              rows={2}
              value={draft.origins}
              error={fieldError(errors, 'allowed_origins')}
              onChange={(event) => change({ origins: event.currentTarget.value })}
            />
          )}
          {draft.type === 'public' && (
            <Checkbox
              label="Require bound sessions"
              description="A session then works only in the browser that created it. The page must use the SDK in a secure context (HTTPS or localhost), or send DPoP proofs itself. Existing sessions are not affected."
              checked={draft.requireBoundSessions}
              error={fieldError(errors, 'require_bound_sessions')}
              onChange={(event) => change({ requireBoundSessions: event.currentTarget.checked })}
            />
          )}
          {draft.type !== 'public' && (
            <Textarea
              label="Allowed networks"
              description="One per line, such as 10.0.0.0/8 or 192.0.2.7. Leave empty to allow all."
              rows={2}
              value={draft.networks}
              error={fieldError(errors, 'allowed_networks')}
              onChange={(event) => change({ networks: event.currentTarget.value })}
            />
          )}
          {draft.type !== 'public' && (
            <Textarea
              label="Trusted issuers"
              description="A JSON list. Workloads exchange the JWTs of these issuers for short-lived keys. Leave empty for none. Keys and sessions of a changed or removed issuer end."
              rows={draft.issuers === '' ? 1 : 6}
              spellCheck={false}
              classNames={{ input: 'mono' }}
              value={draft.issuers}
              error={issuerError(errors)}
              onChange={(event) => change({ issuers: event.currentTarget.value })}
            />
          )}
          <Expiry
            draft={draft}
            change={change}
            application={application}
            error={fieldError(errors, 'expires_at')}
          />
          <div className="foot">
            <Button
              component="a"
              variant="default"
              href={application ? href('applications', application.id) : href('applications')}
            >
              Cancel
            </Button>
            <Button type="submit">{application ? 'Review changes' : 'Review and create'}</Button>
          </div>
        </form>
        <aside className="card sticky">
          <h2>Access preview</h2>
          <Preview holder="application" before={before} after={draft} />
        </aside>
      </div>
      {reviewing && (
        <ReviewDialog
          draft={draft}
          application={before}
          conflict={conflict}
          rebase={rebase}
          save={save}
          close={() => setReviewing(false)}
        />
      )}
      {created && (
        <NewKeyDialog
          secret={created.key}
          name={draft.name}
          note={created.note}
          close={() => {
            setCreated(undefined);
            discard();
            navigate('applications', created.id);
          }}
        />
      )}
    </div>
  );
}

const issuerList = 'Enter a JSON list of objects with `issuer`, `audience` and `claims`.';

const defaultsObject = 'Enter a JSON object with `mask` and `search`.';

/** Names the field of the issuer that is wrong. */
function issuerError(errors: Errors): string | undefined {
  const [path = '', messages] =
    Object.entries(errors).find(([name]) => name.startsWith('trusted_issuers')) ?? [];
  return messages && `${path.slice('trusted_issuers.'.length)} ${messages[0]}`.trim();
}

function localErrors(draft: Draft): Errors {
  const { name, permissions, rules } = draft;
  const expiry = expiryError(draft);
  return {
    ...(name.trim() === '' && { name: ['Enter a name.'] }),
    ...(permissions.length + rules.length === 0 && {
      permissions: ['Add a rule or a permission.'],
    }),
    ...(draft.type !== 'public' && !issuersOf(draft) && { trusted_issuers: [issuerList] }),
    ...Object.fromEntries(
      rules.flatMap(({ defaults }, at) =>
        typeof defaults === 'string' ? [[`rules.${at}.defaults`, [defaultsObject]]] : [],
      ),
    ),
    ...(expiry !== undefined && { expires_at: [expiry] }),
  };
}
