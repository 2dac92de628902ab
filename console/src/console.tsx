/** Shows the sign-in form or the page of the current route. */
import { lazy, type ReactNode, Suspense, useCallback, useEffect, useState } from 'react';
import { Applications } from './applications/list.tsx';
import { ErrorBoundary } from './frame/error-boundary.tsx';
import { useSectionKeys } from './frame/keyboard.ts';
import { parseRoute, useHash } from './frame/route.ts';
import { sections } from './frame/sections.ts';
import { Shell } from './frame/shell.tsx';
import { SignIn } from './frame/sign-in.tsx';
import { type SignedIn, SignedInProvider } from './frame/signed-in.ts';

const OneApplication = lazy(async () => ({
  default: (await import('./applications/application-page.tsx')).ApplicationPage,
}));
const NewApplication = lazy(async () => ({
  default: (await import('./applications/edit.tsx')).EditApplication,
}));
const PreviewPage = lazy(async () => ({ default: (await import('./access/page.tsx')).PreviewPage }));
const Sessions = lazy(async () => ({ default: (await import('./sessions/page.tsx')).Sessions }));
const Tokens = lazy(async () => ({ default: (await import('./tokens/page.tsx')).Tokens }));
const Activity = lazy(async () => ({ default: (await import('./activity/page.tsx')).Activity }));

function pageOf([at, id, what]: readonly string[]): ReactNode {
  if (at === 'preview') return <PreviewPage />;
  if (at === 'sessions') return <Sessions />;
  if (at === 'tokens') return <Tokens />;
  if (at === 'activity') return <Activity />;
  if (id === 'new') return <NewApplication />;
  if (id !== undefined) return <OneApplication key={`${id}/${what}`} id={id} editing={what === 'edit'} />;
  return <Applications />;
}

export function Console({ given }: { given: Promise<string | undefined> }) {
  const [signedIn, setSignedIn] = useState<SignedIn>();
  const [reason, setReason] = useState<string>();
  const lost = useCallback(() => {
    setSignedIn(undefined);
    setReason('Signed out: the key has expired or was revoked. Sign in with another key.');
  }, []);
  const leave = useCallback(() => {
    setSignedIn(undefined);
    setReason(undefined);
  }, []);
  if (!signedIn) return <SignIn given={given} reason={reason} enter={setSignedIn} lost={lost} />;
  return (
    <SignedInProvider value={signedIn}>
      <Pages leave={leave} />
    </SignedInProvider>
  );
}

function Pages({ leave }: { leave: () => void }) {
  const { parts } = parseRoute(useHash());
  const place = sections.some(({ path }) => path === parts[0]) ? parts : ['applications'];
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
        <Suspense fallback={<div className="page" aria-busy="true" />}>{pageOf(place)}</Suspense>
      </ErrorBoundary>
    </Shell>
  );
}
