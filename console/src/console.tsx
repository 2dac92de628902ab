/** Who is signed in sees the page of the place; everyone else is asked for a key. */
import { lazy, type ReactNode, Suspense, useCallback, useEffect, useState } from 'react';
import { Applications } from './applications/list.tsx';
import { Boundary } from './frame/boundary.tsx';
import { useJourneys } from './frame/keyboard.ts';
import { parsePlace, useHash } from './frame/place.ts';
import { sections } from './frame/sections.ts';
import { Shell } from './frame/shell.tsx';
import { SignIn } from './frame/sign-in.tsx';
import { type SignedIn, SignedInProvider } from './frame/signed-in.ts';

const OneApplication = lazy(async () => ({
  default: (await import('./applications/one.tsx')).OneApplication,
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
    setReason('This key no longer works: it has expired, or was replaced or deleted. Sign in with another.');
  }, []);
  const leave = useCallback(() => {
    setSignedIn(undefined);
    setReason(undefined);
  }, []);
  if (!signedIn) return <SignIn given={given} reason={reason} enter={setSignedIn} lost={lost} />;
  return (
    <SignedInProvider value={signedIn}>
      <Inside leave={leave} />
    </SignedInProvider>
  );
}

function Inside({ leave }: { leave: () => void }) {
  const { parts } = parsePlace(useHash());
  const place = sections.some(({ at }) => at === parts[0]) ? parts : ['applications'];
  const label = sections.find(({ at }) => at === place[0])?.label;
  useEffect(() => {
    document.title = `${label} · Sallyport`;
    return () => {
      document.title = 'Sallyport';
    };
  }, [label]);
  useJourneys();
  return (
    <Shell at={place[0] as string} leave={leave}>
      <Boundary key={place.join('/')}>
        <Suspense fallback={<div className="page" aria-busy="true" />}>{pageOf(place)}</Suspense>
      </Boundary>
    </Shell>
  );
}
