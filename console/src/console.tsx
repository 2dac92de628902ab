/** Shows the sign-in form or the pages. */
import { Suspense, useCallback, useEffect, useState } from 'react';
import { removeAllDrafts } from './applications/stored-draft.ts';
import { announce } from './frame/announce.ts';
import { ErrorBoundary } from './frame/error-boundary.tsx';
import {
  type FoundKey,
  forgetKey,
  guardKey,
  isLocked,
  keepKey,
  lockTab,
  signOutOtherTabs,
} from './frame/kept-key.ts';
import { lazyPage } from './frame/lazy-page.tsx';
import { SignIn } from './frame/sign-in.tsx';
import { type ConsoleSession, signOutPerson } from './frame/sign-in-link.ts';
import { type SignedIn, SignedInProvider } from './frame/signed-in.ts';
import { SkeletonPage } from './frame/skeleton.tsx';
import { confirmLeaving } from './frame/unsaved.ts';

const loadPages = () => import('./pages.tsx');
const Pages = lazyPage(async () => (await loadPages()).Pages);

const lockedReason =
  'Locked after 15 minutes without input. Sign in to continue. Unsaved changes are not lost.';

interface Props {
  readonly given: Promise<FoundKey | undefined>;
  readonly session: Promise<ConsoleSession>;
  /** Why the sign-in at a provider did not succeed. */
  readonly reason: string | undefined;
}

export function Console({ given, session, reason: problem }: Props) {
  const [signedIn, setSignedIn] = useState<SignedIn>();
  const [unused, setUnused] = useState<typeof given | undefined>(given);
  const [keptKey, setKeptKey] = useState<string>();
  const [reason, setReason] = useState(() => problem ?? (isLocked() ? lockedReason : undefined));
  const end = useCallback((why?: string) => {
    forgetKey();
    setKeptKey(undefined);
    setSignedIn(undefined);
    setReason(why);
  }, []);
  const lost = useCallback(
    (isPerson?: boolean) =>
      end(
        isPerson
          ? 'Signed out: the session has ended. Sign in again.'
          : 'Signed out: the key has expired or was revoked. Sign in with another key.',
      ),
    [end],
  );
  const signOut = useCallback(() => {
    removeAllDrafts();
    end();
  }, [end]);
  useEffect(() => {
    if (keptKey === undefined) return;
    const lock = () => {
      end(lockedReason);
      lockTab();
    };
    return guardKey(keptKey, { idle: lock, signOut });
  }, [keptKey, end, signOut]);
  // Loads the other pages while the sign-in form is shown.
  useEffect(() => void loadPages().catch(() => undefined), []);
  const enter = (next: SignedIn, found?: FoundKey) => {
    setSignedIn(next);
    setUnused(undefined);
    if (!found?.keep) return;
    keepKey(found.key);
    setKeptKey(found.key);
  };
  if (!signedIn) return <SignIn given={unused} session={session} reason={reason} enter={enter} lost={lost} />;
  const leave = async () => {
    if (!confirmLeaving()) return;
    try {
      if (signedIn.person) await signOutPerson();
    } catch (error) {
      return announce((error as Error).message);
    }
    signOutOtherTabs();
    signOut();
  };
  return (
    <SignedInProvider value={signedIn}>
      <ErrorBoundary>
        <Suspense fallback={<SkeletonPage />}>
          <Pages leave={leave} />
        </Suspense>
      </ErrorBoundary>
    </SignedInProvider>
  );
}
