/** Search: opens a page, an application by name, and any object by its id. */
import { Modal } from '@mantine/core';
import { type KeyboardEvent, useMemo, useState } from 'react';
import { useApplicationSearch } from '../applications/application-picker.tsx';
import { isUuid, shortId } from './format.ts';
import { Icon, type IconName } from './icons.tsx';
import { useDebounced, useLoad } from './load.ts';
import { href } from './route.ts';
import { sections } from './sections.ts';
import { type SignedIn, useSignedIn } from './signed-in.ts';

interface Target {
  readonly id: string;
  readonly label: string;
  readonly hint: string;
  readonly icon: IconName;
  readonly href: string;
}

const maxApplications = 8;
/** Words before the name of an application that run an action on it. */
const actions = [
  ['rotate', 'Rotate key of', 'key'],
  ['quarantine', 'Quarantine or release', 'shield'],
  ['edit', 'Edit', 'edit'],
] as const;
const keyPattern = /^slp_[a-z]{3}_[0-9A-Za-z]{55}$/;
const containerPattern = /^(\/[\w-]+)+\/?$/;

function target(id: string, label: string, hint: string, icon: IconName, at: string, query = {}): Target {
  const text = new URLSearchParams(query).toString();
  return { id, label, hint, icon, href: text === '' ? href(at) : `${href(at)}?${text}` };
}

/** Applications that have a key with this ending: four characters, or a whole key, of which only the end is sent. */
async function findKeys({ api }: SignedIn, text: string, signal: AbortSignal): Promise<Target[]> {
  const ending = keyPattern.test(text) ? text.slice(-4) : /^(?:…|\.{3})?([0-9A-Za-z]{4})$/.exec(text)?.[1];
  if (ending === undefined) return [];
  const { data } = await api.applications.list({ key_ending: ending, size: maxApplications }, { signal });
  return data.map(({ id, name }) => ({
    id: `key ${id}`,
    label: `Key …${ending} of ${name}`,
    hint: 'key',
    icon: 'key',
    href: `${href('applications', id)}?${new URLSearchParams({ key: ending })}`,
  }));
}

async function findSession({ api }: SignedIn, text: string, signal: AbortSignal): Promise<Target[]> {
  if (!isUuid(text)) return [];
  const { data } = await api.sessions.list({ id: [text] }, { signal });
  return data.map(({ id, state }) => sessionTarget(id, state));
}

const kinds = {
  id: 'entry',
  request_id: 'request',
  token: 'token',
  entity: 'entity',
  actor: 'actor',
} as const;

/** Searches the log for the text. Also finds tokens in this way, without reading their data. */
async function findEntries({ api, held }: SignedIn, text: string, signal: AbortSignal): Promise<Target[]> {
  const find = async ([filter, kind]: [string, (typeof kinds)[keyof typeof kinds]]): Promise<Target[]> => {
    if ((kind === 'entry' || kind === 'actor') && !isUuid(text)) return [];
    const [entry] = (await api.logs.list({ [filter]: text, size: 1 }, { signal })).data;
    if (!entry) return [];
    const inLog = (label: string, hint: string) =>
      target(`${kind} ${text}`, label, hint, 'activity', 'activity', { q: text });
    if (kind === 'entry' || kind === 'request') return [inLog(`${entry.operation} ${shortId(text)}`, kind)];
    if (kind === 'token' && held.has('token:read'))
      return [tokenTarget(text), inLog(`Activity of token ${text}`, 'activity')];
    if (kind === 'entity' && (entry.entity?.kind === 'session' || entry.entity?.kind === 'delegation'))
      return [sessionTarget(text, 'ended')];
    return kind === 'entity' && entry.entity?.kind === 'token'
      ? []
      : [inLog(`Activity of ${shortId(text)}`, 'activity')];
  };
  const found = await Promise.all(Object.entries(kinds).map(find));
  return found.flat();
}

function sessionTarget(id: string, hint: string): Target {
  return target(`session ${id}`, `Session ${shortId(id)}`, hint, 'sessions', 'sessions', { id });
}

function tokenTarget(id: string): Target {
  return target(`token ${id}`, `Token ${id}`, 'token', 'tokens', 'tokens', { open: id });
}

async function findToken({ api }: SignedIn, text: string, signal: AbortSignal): Promise<Target[]> {
  const { data } = await api.tokens.list({ id: [text], size: 1 }, { signal });
  return data.map(({ id }) => tokenTarget(id));
}

async function findDestinations({ api }: SignedIn, text: string, signal: AbortSignal): Promise<Target[]> {
  const query = isUuid(text) ? { id: [text] } : { name: text, size: maxApplications };
  const { data } = await api.destinations.list(query, { signal });
  return data.map(({ id, name }) => {
    return { id, label: name, hint: 'destination', icon: 'destinations', href: href('destinations', id) };
  });
}

function containerTargets(text: string): Target[] {
  if (!containerPattern.test(text)) return [];
  const container = text.endsWith('/') ? text : `${text}/`;
  return [
    target('in tokens', `Tokens in ${container}`, 'container', 'tokens', 'tokens', { container }),
    target('in who', `Who has access to ${container}`, 'container', 'people', 'who', { q: container }),
    target('in activity', `Activity in ${container}`, 'container', 'activity', 'activity', { q: container }),
  ];
}

/** Searches that fail, for instance because the key lacks the permission, find nothing. */
async function findObjects(signedIn: SignedIn, text: string, signal: AbortSignal): Promise<Target[]> {
  const nothing = () => [];
  const keys = await findKeys(signedIn, text, signal).catch(nothing);
  if (keyPattern.test(text) || text.length < 3 || /\s/.test(text)) return keys;
  if (text.startsWith('/')) return containerTargets(text);
  const [destinations, session, entries] = await Promise.all([
    findDestinations(signedIn, text, signal).catch(nothing),
    findSession(signedIn, text, signal).catch(nothing),
    findEntries(signedIn, text, signal).catch(nothing),
  ]);
  const isToken = entries.some(({ hint }) => hint === 'token');
  const token = isToken || isUuid(text) ? [] : await findToken(signedIn, text, signal).catch(nothing);
  const all = [...keys, ...destinations, ...session, ...token, ...entries];
  return all.filter(({ id }, index) => all.findIndex((other) => other.id === id) === index);
}

type Action = (typeof actions)[number];

/** The action and the rest of the text, such as `rotate web shop`. */
function actionIn(text: string): [Action | undefined, string] {
  const [word = '', ...rest] = text.trimStart().split(' ');
  const action = actions.find(([name]) => name === word.toLowerCase() && rest.length > 0);
  return [action, action ? rest.join(' ') : text];
}

function actionTarget([action, label, icon]: Action, id: string, name: string): Target {
  const page = href('applications', id);
  const address = action === 'edit' ? href('applications', id, 'edit') : `${page}?do=${action}`;
  return { id: `${action} ${id}`, label: `${label} ${name}`, hint: 'action', icon, href: address };
}

function useTargets(text: string): { targets: readonly Target[]; searching: boolean } {
  const signedIn = useSignedIn();
  const wanted = useDebounced(text.trim());
  // A pasted key must not be sent as a name.
  const [action, name] = actionIn(text);
  const { found, searching } = useApplicationSearch(keyPattern.test(text.trim()) ? '' : name);
  const objects = useLoad(`objects ${wanted}`, (signal) => findObjects(signedIn, wanted, signal));
  return useMemo(() => {
    const typed = text.trim().toLowerCase();
    const pages = [
      {
        id: 'new',
        label: 'Create an application',
        hint: '',
        icon: 'plus' as const,
        href: href('applications', 'new'),
      },
      ...sections.map(({ label, icon, path }) => target(path, label, '', icon, path)),
    ];
    const targets: Target[] = pages.filter(({ label }) => label.toLowerCase().includes(typed));
    if (!keyPattern.test(text.trim()))
      for (const { id, name, type, quarantined_at } of found.slice(0, maxApplications))
        if (action && signedIn.held.has('application:update')) targets.push(actionTarget(action, id, name));
        else
          targets.push({
            id,
            label: name,
            hint: quarantined_at ? 'in quarantine' : type,
            icon: 'applications',
            href: href('applications', id),
          });
    const isCurrent = wanted === text.trim();
    if (isCurrent) targets.push(...(objects.data ?? []));
    return { targets, searching: searching || !isCurrent || objects.data === undefined };
  }, [found, searching, text, wanted, objects.data, action, signedIn]);
}

function Targets({ close }: { close: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const { targets, searching } = useTargets(text);
  const open = (chosen: Target | undefined) => {
    if (!chosen) return;
    close();
    location.hash = chosen.href;
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((at + step + targets.length) % Math.max(1, targets.length));
    }
    if (event.key === 'Enter') open(targets[at]);
  };
  return (
    <div className="quick-open">
      <input
        data-autofocus
        role="combobox"
        aria-label="Search"
        aria-expanded="true"
        aria-controls="quick-open-targets"
        aria-activedescendant={targets[at] ? `quick-open-${at}` : undefined}
        placeholder="Name, container or ID; or rotate, quarantine or edit and a name"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={pressed}
      />
      <div id="quick-open-targets" role="listbox" aria-label="Results">
        {targets.map((each, index) => (
          <div
            key={each.id}
            id={`quick-open-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onMouseMove={() => setAt(index)}
            onClick={() => open(each)}
          >
            <Icon name={each.icon} />
            <span>{each.label}</span>
            <small>{each.hint}</small>
          </div>
        ))}
        {targets.length === 0 && (
          <p className="quiet">
            {searching
              ? 'Searching…'
              : 'Nothing found. IDs must be complete; of a key, its last 4 characters.'}
          </p>
        )}
      </div>
    </div>
  );
}

export function QuickOpen({ opened, close }: { opened: boolean; close: () => void }) {
  return (
    <Modal
      opened={opened}
      onClose={close}
      withCloseButton={false}
      padding={0}
      size={520}
      yOffset="12vh"
      centered={false}
      title="Search"
      className="quick-open-dialog"
    >
      <Targets close={close} />
    </Modal>
  );
}
