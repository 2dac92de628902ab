/** The three who take part, and what each of them has. */
import type { AccessRule, LogEntry } from '../../sdk/src/sallyport.ts';
import { compact } from './json.ts';

export type Transform = AccessRule['transform'];

export function byId<E extends HTMLElement = HTMLElement>(id: string): E {
  return document.getElementById(id) as E;
}

export function element(tag: string, className: string, ...content: (string | Node)[]): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...content);
  return made;
}

export function showSeen(transform: Transform, data: unknown): void {
  const cell = byId(`seen-${transform}`);
  const { number, expiry, holder } = (data ?? {}) as Record<string, string | undefined>;
  cell.className = data === undefined ? 'nothing' : '';
  cell.textContent =
    data === undefined
      ? 'nothing'
      : [number?.replace(/(.{4})(?=.)/g, '$1 '), expiry, holder].filter(Boolean).join(' · ');
}

export function showPolicy(transform: Transform, rules: AccessRule[]): void {
  const input = document.querySelector<HTMLInputElement>(`input[value=${transform}]`);
  if (input) input.checked = true;
  byId('rules').textContent = compact(rules[0], 46);
  byId('lane-backend').textContent = `grants ${transform}`;
}

export function showCountdown(life: { made: number; end: number } | undefined): void {
  const clock = byId('countdown');
  const words = clock.querySelector('p') as HTMLElement;
  if (!life) return;
  const left = Math.max(0, life.end - Date.now());
  const seconds = Math.ceil(left / 1000);
  clock.style.setProperty('--left', String(left / (life.end - life.made)));
  clock.dataset.state = left === 0 ? 'over' : seconds <= 10 ? 'short' : 'alive';
  words.textContent = left === 0 ? 'the Session is over' : `the Session ends in ${seconds} s`;
  byId('lane-browser').textContent = words.textContent;
}

/** Newest first. */
export function showLog(entries: LogEntry[]): void {
  byId('log').replaceChildren(
    ...entries.map(({ at, operation, result, actor, reason }) =>
      element(
        'li',
        result,
        element('time', '', at.slice(11, 19)),
        element('span', '', `${operation}${reason ? `: ${reason}` : ''}`),
        element('i', '', actor.kind),
      ),
    ),
  );
}
