import { Button, PasswordInput } from '@mantine/core';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { AuthenticationError } from '../../../sdk/src/sallyport.ts';
import { Icon } from './icons.tsx';
import { advice } from './problem.tsx';
import { type SignedIn, signIn } from './signed-in.ts';

const shape = /^slp_(mgt|pvt|pub|ses)_[0-9A-Za-z]{49}$/;

function sentence(error: unknown): string {
  if (error instanceof AuthenticationError)
    return 'This key is not known here: it may have expired, or been replaced or deleted.';
  const { title, text } = advice(error);
  return `${title}. ${text}`;
}

interface Props {
  /** Taken from the link that the service printed, and tried at once. */
  readonly given: Promise<string | undefined>;
  /** Why one has to sign in again. */
  readonly reason: string | undefined;
  readonly enter: (signedIn: SignedIn) => void;
  readonly lost: () => void;
}

export function SignIn({ given, reason, enter, lost }: Props) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const [complaint, setComplaint] = useState(reason);
  const input = useRef<HTMLInputElement>(null);
  const attempt = async (text: string) => {
    if (!shape.test(text)) {
      setComplaint('A key begins with slp_ and has 57 characters: copy all of it.');
      return input.current?.focus();
    }
    setBusy(true);
    try {
      enter(await signIn(text, lost));
    } catch (error) {
      setBusy(false);
      setComplaint(sentence(error));
      input.current?.select();
    }
  };
  const first = useRef(attempt);
  useEffect(() => {
    given.then(
      (link) => link !== undefined && void first.current(link),
      (error: unknown) => setComplaint(error instanceof Error ? error.message : String(error)),
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
        <p>With the key of an Application. A management key sees the most.</p>
        <PasswordInput
          ref={input}
          label="Key"
          placeholder="slp_mgt_…"
          size="sm"
          value={key}
          onChange={(event) => setKey(event.currentTarget.value)}
          error={complaint}
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
          The first start writes one to <code>data/management.key</code>. It stays in this page’s memory: no
          cookie, no storage, gone with a reload.
        </p>
      </form>
    </main>
  );
}
