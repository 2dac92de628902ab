/** Shows the sign-in form or the pages. */
import { Suspense, useCallback, useEffect, useState } from 'react';
import { removeAllDrafts } from './applications/stored-draft.ts';
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
import { type SignedIn, SignedInProvider } from './frame/signed-in.ts';
import { SkeletonPage } from './frame/skeleton.tsx';
import { confirmLeaving } from './frame/unsaved.ts';

const loadPages = () => import('./pages.tsx');
const Pages = lazyPage(async () => (await loadPages()).Pages);

const lockedReason = 'Locked after 15 minutes without input. Sign in to continue. Unsaved changes are kept.';

export function Console({ given }: { given: Promise<FoundKey | undefined> }) {
  const [signedIn, setSignedIn] = useState<SignedIn>();
  const [unused, setUnused] = useState<typeof given | undefined>(given);
  const [keptKey, setKeptKey] = useState<string>();
  const [reason, setReason] = useState(() => (isLocked() ? lockedReason : undefined));
  const end = useCallback((why?: string) => {
    forgetKey();
    setKeptKey(undefined);
    setSignedIn(undefined);
    setReason(why);
  }, []);
  const lost = useCallback(
    () => end('Signed out: the key has expired or was revoked. Sign in with another key.'),
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
  const enter = (next: SignedIn, { key, keep }: FoundKey) => {
    setSignedIn(next);
    setUnused(undefined);
    if (!keep) return;
    keepKey(key);
    setKeptKey(key);
  };
  if (!signedIn) return <SignIn given={unused} reason={reason} enter={enter} lost={lost} />;
  const leave = () => {
    if (!confirmLeaving()) return;
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
