import { Button, Checkbox, PasswordInput } from '@mantine/core';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { AuthenticationError } from '../../../sdk/src/sallyport.ts';
import { describeError } from './error-notice.tsx';
import { Icon } from './icons.tsx';
import type { FoundKey } from './kept-key.ts';
import { type ConsoleSession, goToProvider } from './sign-in-link.ts';
import { type SignedIn, signIn } from './signed-in.ts';

const keyPattern = /^slp_(mgt|pvt|pub|ses|dlg)_[0-9A-Za-z]{55}$/;

function messageFor(error: unknown): string {
  if (error instanceof AuthenticationError)
    return 'This key is invalid. It may have expired or been revoked.';
  const { title, text } = describeError(error);
  return `${title}. ${text}`;
}

interface Props {
  /** The key from the sign-in link, from this tab or from another one. Undefined after it was used. */
  readonly given: Promise<FoundKey | undefined> | undefined;
  /** The providers, and the person who has signed in at one of them. */
  readonly session: Promise<ConsoleSession>;
  /** Why the user was signed out. */
  readonly reason: string | undefined;
  readonly enter: (signedIn: SignedIn, found?: FoundKey) => void;
  readonly lost: (isPerson?: boolean) => void;
}

export function SignIn({ given, session, reason, enter, lost }: Props) {
  const [offered, setOffered] = useState<ConsoleSession>();
  const [key, setKey] = useState('');
  const [keep, setKeep] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(reason);
  const input = useRef<HTMLInputElement>(null);
  const attempt = async (found: FoundKey) => {
    if (!keyPattern.test(found.key)) {
      setError('A key starts with slp_ and has 63 characters. Copy all of it.');
      return input.current?.focus();
    }
    setBusy(true);
    try {
      enter(await signIn(found, () => lost()), found);
    } catch (error) {
      setBusy(false);
      setError(messageFor(error));
      input.current?.select();
    }
  };
  const first = useRef(attempt);
  const continuePerson = async ({ person }: ConsoleSession) => {
    if (person) enter(await signIn({ person }, () => lost(true)));
  };
  const resume = useRef(continuePerson);
  useEffect(() => {
    void session.then(setOffered);
    given
      ?.then((found) => (found ? first.current(found) : session.then(resume.current)))
      .catch((error: unknown) => setError(error instanceof Error ? error.message : String(error)));
  }, [given, session]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void attempt({ key: key.trim(), keep });
  };
  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <span className="brand-mark">
          <Icon name="gate" size={28} />
        </span>
        <h1>Sign in to Sallyport</h1>
        {offered?.providers.map(({ number, name }) => (
          <Button key={number} size="sm" fullWidth onClick={() => goToProvider(number)}>
            Sign in with {name}
          </Button>
        ))}
        {offered?.keys === false ? (
          error && <p role="alert">{error}</p>
        ) : (
          <>
            <p>Use an application key. You see what the key can access.</p>
            <input
              className="visually-hidden"
              name="username"
              autoComplete="username"
              value={`Sallyport at ${location.host}`}
              readOnly
              tabIndex={-1}
              aria-hidden="true"
            />
            <PasswordInput
              ref={input}
              label="Key"
              placeholder="slp_mgt_…"
              size="sm"
              value={key}
              onChange={(event) => setKey(event.currentTarget.value)}
              error={error}
              errorProps={{ role: 'alert' }}
              name="password"
              autoComplete="current-password"
              spellCheck={false}
              data-autofocus
              autoFocus
            />
            <Checkbox
              label="Stay signed in"
              description="Reloads and new tabs stay signed in, until 15 minutes without input. Not for shared computers."
              checked={keep}
              onChange={(event) => setKeep(event.currentTarget.checked)}
            />
            <Button type="submit" size="sm" fullWidth loading={busy}>
              Sign in
            </Button>
            <p className="fine">
              The first start writes a management key to <code>data/management.key</code>.
            </p>
          </>
        )}
      </form>
    </main>
  );
}
