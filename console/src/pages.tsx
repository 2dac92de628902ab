/** The page of the current route, within the navigation. */
import { Button } from '@mantine/core';
import { type ReactNode, Suspense, useEffect } from 'react';
import { Applications } from './applications/list.tsx';
import { ErrorBoundary } from './frame/error-boundary.tsx';
import { Icon } from './frame/icons.tsx';
import { useSectionKeys } from './frame/keyboard.ts';
import { lazyPage } from './frame/lazy-page.tsx';
import { href, parseRoute, useHash } from './frame/route.ts';
import { sections } from './frame/sections.ts';
import { Shell } from './frame/shell.tsx';
import { SkeletonPage } from './frame/skeleton.tsx';

const OneApplication = lazyPage(
  async () => (await import('./applications/application-page.tsx')).ApplicationPage,
);
const NewApplication = lazyPage(async () => (await import('./applications/edit.tsx')).EditApplication);
const PreviewPage = lazyPage(async () => (await import('./access/page.tsx')).PreviewPage);
const Overview = lazyPage(async () => (await import('./overview/page.tsx')).Overview);
const WhoPage = lazyPage(async () => (await import('./who/page.tsx')).WhoPage);
const Sessions = lazyPage(async () => (await import('./sessions/page.tsx')).Sessions);
const Tokens = lazyPage(async () => (await import('./tokens/page.tsx')).Tokens);
const Destinations = lazyPage(async () => (await import('./destinations/page.tsx')).Destinations);
const OneDestination = lazyPage(async () => (await import('./destinations/page.tsx')).DestinationPage);
const NewDestination = lazyPage(async () => (await import('./destinations/edit.tsx')).EditDestination);
const Activity = lazyPage(async () => (await import('./activity/page.tsx')).Activity);

function pageOf([at, id, what, ...others]: readonly string[]): ReactNode {
  const hasIds = at === 'applications' || at === 'destinations';
  const isKnown = sections.some(({ path }) => path === at) && (hasIds || id === undefined);
  if (!isKnown || (what ?? 'edit') !== 'edit' || others.length > 0) return <NotFound />;
  if (at === 'overview') return <Overview />;
  if (at === 'preview') return <PreviewPage />;
  if (at === 'who') return <WhoPage />;
  if (at === 'sessions') return <Sessions />;
  if (at === 'tokens') return <Tokens />;
  if (at === 'activity') return <Activity />;
  const editing = what === 'edit';
  if (at === 'destinations') {
    if (id === undefined) return <Destinations />;
    return id === 'new' ? (
      <NewDestination />
    ) : (
      <OneDestination key={`${id}/${what}`} id={id} editing={editing} />
    );
  }
  if (id === 'new') return <NewApplication />;
  if (id !== undefined) return <OneApplication key={`${id}/${what}`} id={id} editing={editing} />;
  return <Applications />;
}

function NotFound() {
  return (
    <div className="page">
      <div className="empty">
        <Icon name="search" size={28} />
        <h1>Not found</h1>
        <p>The console has no page at this address. It may be of another version, or incomplete.</p>
        <Button component="a" href={href('overview')}>
          Overview
        </Button>
      </div>
    </div>
  );
}

export function Pages({ leave }: { leave: () => void }) {
  const { parts } = parseRoute(useHash());
  const place = parts.length === 0 ? ['overview'] : parts;
  const label = sections.find(({ path }) => path === place[0])?.label ?? 'Not found';
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
