import { Button, PasswordInput } from '@mantine/core';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { AuthenticationError } from '../../../sdk/src/sallyport.ts';
import { describeError } from './error-notice.tsx';
import { Icon } from './icons.tsx';
import { type SignedIn, signIn } from './signed-in.ts';

const keyPattern = /^slp_(mgt|pvt|pub|ses)_[0-9A-Za-z]{49}$/;

function messageFor(error: unknown): string {
  if (error instanceof AuthenticationError)
    return 'This key is invalid. It may have expired or been revoked.';
  const { title, text } = describeError(error);
  return `${title}. ${text}`;
}

interface Props {
  /** The key from the sign-in link, if the page was opened with one. */
  readonly given: Promise<string | undefined>;
  /** Why the user was signed out. */
  readonly reason: string | undefined;
  readonly enter: (signedIn: SignedIn) => void;
  readonly lost: () => void;
}

export function SignIn({ given, reason, enter, lost }: Props) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(reason);
  const input = useRef<HTMLInputElement>(null);
  const attempt = async (text: string) => {
    if (!keyPattern.test(text)) {
      setError('A key starts with slp_ and has 57 characters. Copy all of it.');
      return input.current?.focus();
    }
    setBusy(true);
    try {
      enter(await signIn(text, lost));
    } catch (error) {
      setBusy(false);
      setError(messageFor(error));
      input.current?.select();
    }
  };
  const first = useRef(attempt);
  useEffect(() => {
    given.then(
      (link) => link !== undefined && void first.current(link),
      (error: unknown) => setError(error instanceof Error ? error.message : String(error)),
    );
  }, [given]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void attempt(key.trim());
  };
  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <span className="brand-mark">
          <Icon name="gate" size={28} />
        </span>
        <h1>Sign in to Sallyport</h1>
        <p>Use an application key. You see what the key can access.</p>
        <PasswordInput
          ref={input}
          label="Key"
          placeholder="slp_mgt_…"
          size="sm"
          value={key}
          onChange={(event) => setKey(event.currentTarget.value)}
          error={error}
          errorProps={{ role: 'alert' }}
          autoComplete="off"
          spellCheck={false}
          data-autofocus
          autoFocus
        />
        <Button type="submit" size="sm" fullWidth loading={busy}>
          Sign in
        </Button>
        <p className="fine">
          The first start writes a management key to <code>data/management.key</code>. The console holds the
          key in memory only; a reload signs you out.
        </p>
      </form>
    </main>
  );
}
