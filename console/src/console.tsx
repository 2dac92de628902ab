/** Shows the sign-in form or the page of the current route. */
import { type ReactNode, Suspense, useCallback, useEffect, useState } from 'react';
import { Applications } from './applications/list.tsx';
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
import { useSectionKeys } from './frame/keyboard.ts';
import { lazyPage } from './frame/lazy-page.tsx';
import { parseRoute, useHash } from './frame/route.ts';
import { sections } from './frame/sections.ts';
import { Shell } from './frame/shell.tsx';
import { SignIn } from './frame/sign-in.tsx';
import { type SignedIn, SignedInProvider } from './frame/signed-in.ts';
import { SkeletonPage } from './frame/skeleton.tsx';
import { confirmLeaving } from './frame/unsaved.ts';

const OneApplication = lazyPage(
  async () => (await import('./applications/application-page.tsx')).ApplicationPage,
);
const NewApplication = lazyPage(async () => (await import('./applications/edit.tsx')).EditApplication);
const PreviewPage = lazyPage(async () => (await import('./access/page.tsx')).PreviewPage);
const Overview = lazyPage(async () => (await import('./overview/page.tsx')).Overview);
const WhoPage = lazyPage(async () => (await import('./who/page.tsx')).WhoPage);
const Sessions = lazyPage(async () => (await import('./sessions/page.tsx')).Sessions);
const Tokens = lazyPage(async () => (await import('./tokens/page.tsx')).Tokens);
const Activity = lazyPage(async () => (await import('./activity/page.tsx')).Activity);

function pageOf([at, id, what]: readonly string[]): ReactNode {
  if (at === 'overview') return <Overview />;
  if (at === 'preview') return <PreviewPage />;
  if (at === 'who') return <WhoPage />;
  if (at === 'sessions') return <Sessions />;
  if (at === 'tokens') return <Tokens />;
  if (at === 'activity') return <Activity />;
  if (id === 'new') return <NewApplication />;
  if (id !== undefined) return <OneApplication key={`${id}/${what}`} id={id} editing={what === 'edit'} />;
  return <Applications />;
}

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
      <Pages leave={leave} />
    </SignedInProvider>
  );
}

function Pages({ leave }: { leave: () => void }) {
  const { parts } = parseRoute(useHash());
  const place = sections.some(({ path }) => path === parts[0]) ? parts : ['overview'];
  const label = sections.find(({ path }) => path === place[0])?.label;
  useEffect(() => {
    document.title = `${label} · Sallyport`;
    return () => {
      document.title = 'Sallyport';
    };
  }, [label]);
  useSectionKeys();
  return (
    <Shell at={place[0] as string} leave={leave}>
      <ErrorBoundary key={place.join('/')}>
        <Suspense fallback={<SkeletonPage />}>{pageOf(place)}</Suspense>
      </ErrorBoundary>
    </Shell>
  );
}
