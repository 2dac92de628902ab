/** Navigation and account menu around every page. */
import { ActionIcon, Menu, Tooltip, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { onAnnouncement } from './announce.ts';
import { checkInterval, useStaleSince } from './connection.ts';
import { formatDate } from './format.ts';
import { Help } from './help.tsx';
import { Icon } from './icons.tsx';
import { modifierKey, useShortcuts } from './keyboard.ts';
import { useLiveUpdates } from './load.ts';
import { QuickOpen } from './quick-open.tsx';
import { href, useRoutePath } from './route.ts';
import { type Section, sections } from './sections.ts';
import { holds, useSignedIn } from './signed-in.ts';

function SectionLink({ section, current }: { section: Section; current: boolean }) {
  const signedIn = useSignedIn();
  const missing = section.permission !== undefined && !holds(signedIn, section.permission);
  return (
    <a
      className="nav-link"
      href={href(section.path)}
      aria-current={current ? 'page' : undefined}
      title={missing ? `This key lacks ${section.permission}` : undefined}
    >
      <Icon name={section.icon} />
      <span className="nav-long">{section.label}</span>
      <span className="nav-short" aria-hidden="true">
        {section.short}
      </span>
      {missing && (
        <span className="nav-lock">
          <Icon name="lock" size={12} />
          <span className="visually-hidden">not available with this key</span>
        </span>
      )}
    </a>
  );
}

function Scheme() {
  // Without `keepTransitions`, Mantine inserts a style element, which the content security policy blocks.
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const dark = useComputedColorScheme('light') === 'dark';
  const label = dark ? 'Switch to light theme' : 'Switch to dark theme';
  return (
    <Tooltip label={label}>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={label}
        onClick={() => setColorScheme(dark ? 'light' : 'dark')}
      >
        <Icon name={dark ? 'sun' : 'moon'} />
      </ActionIcon>
    </Tooltip>
  );
}

function Account({ leave }: { leave: () => void }) {
  const { ownApplication, keyEnding, person } = useSignedIn();
  const key = keyEnding && `…${keyEnding}`;
  const name = person ? (person.name ?? person.email ?? person.subject) : ownApplication?.name;
  return (
    <Menu position="top-start" width={240}>
      <Menu.Target>
        <button type="button" className="account">
          <span className="account-mark">
            <Icon name="key" size={14} />
          </span>
          <span className="account-name">
            <span>{name ?? `key ${key}`}</span>
            {ownApplication && <small>{person ? ownApplication.name : key}</small>}
          </span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        {ownApplication && (
          <Menu.Item
            component="a"
            href={href('applications', ownApplication.id)}
            leftSection={<Icon name="key" />}
          >
            {person ? 'Application you signed in to' : 'Application of this key'}
          </Menu.Item>
        )}
        <Menu.Item
          component="a"
          href="/docs"
          target="_blank"
          rel="noreferrer"
          leftSection={<Icon name="book" />}
        >
          Documentation
        </Menu.Item>
        <Menu.Item leftSection={<Icon name="out" />} onClick={leave}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function Announcer() {
  const [text, setText] = useState('');
  useEffect(() => onAnnouncement(setText), []);
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {text}
    </div>
  );
}

/** Says on every page since when its data is out of date. */
function StaleBanner() {
  const { connection } = useSignedIn();
  const since = useStaleSince(connection);
  useLiveUpdates(connection.check, checkInterval);
  if (since === undefined) return null;
  return (
    <p className="notice stale" role="alert">
      <Icon name="warning" />
      <span>
        The service does not answer. This page shows data from before{' '}
        <strong>{formatDate(new Date(since).toISOString())}</strong>, and tries again every few seconds.
      </span>
    </p>
  );
}

export function Shell({ at, leave, children }: { at: string; leave: () => void; children: ReactNode }) {
  const [open, setOpen] = useState<'help' | 'quick-open'>();
  const main = useRef<HTMLElement>(null);
  const path = useRoutePath();
  useShortcuts({ '?': () => setOpen('help'), 'mod+k': () => setOpen('quick-open') });
  useEffect(() => {
    void path;
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [path]);
  return (
    <div className="frame">
      <button type="button" className="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <nav className="side" aria-label="Sections">
        <a className="brand" href={href('overview')}>
          <Icon name="gate" size={18} /> Sallyport
        </a>
        <button
          type="button"
          className="quick-open-button"
          aria-keyshortcuts="Meta+K Control+K"
          onClick={() => setOpen('quick-open')}
        >
          <Icon name="search" size={14} />
          <span>Search…</span>
          <kbd>{modifierKey}K</kbd>
        </button>
        <div className="nav-links">
          {sections.map((section) => (
            <SectionLink key={section.path} section={section} current={section.path === at} />
          ))}
        </div>
        <div className="side-foot">
          <Account leave={leave} />
          <Tooltip label="Keyboard shortcuts (?)">
            <ActionIcon
              className="only-wide"
              variant="subtle"
              color="gray"
              aria-label="Keyboard shortcuts"
              onClick={() => setOpen('help')}
            >
              <Icon name="keyboard" />
            </ActionIcon>
          </Tooltip>
          <Scheme />
        </div>
      </nav>
      <main id="content" ref={main} tabIndex={-1}>
        <StaleBanner />
        {children}
      </main>
      <Help opened={open === 'help'} close={() => setOpen(undefined)} />
      <QuickOpen opened={open === 'quick-open'} close={() => setOpen(undefined)} />
      <Announcer />
    </div>
  );
}
