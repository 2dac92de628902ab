/** Fills the panels of browser, backend and Sallyport. */
import type { AccessRule, LogEntry } from '../../sdk/src/sallyport.ts';
import { formatJson } from './json.ts';

export type Transform = AccessRule['transform'];

export function byId<E extends HTMLElement = HTMLElement>(id: string): E {
  return document.getElementById(id) as E;
}

export function element(tag: string, className: string, ...content: (string | Node)[]): HTMLElement {
  const created = document.createElement(tag);
  created.className = className;
  created.append(...content);
  return created;
}

export function showCard(transform: Transform, data: unknown): void {
  const cell = byId(`seen-${transform}`);
  const { number, expiry, holder } = (data ?? {}) as Record<string, string | undefined>;
  cell.className = data === undefined ? 'empty' : '';
  cell.textContent =
    data === undefined
      ? 'redacted'
      : [number?.replace(/(.{4})(?=.)/g, '$1 '), expiry, holder].filter(Boolean).join(' · ');
  showResult(`${transform}: ${cell.textContent}`, transform);
}

/** The result of the last step. It is next to the buttons, because the panels scroll out of view. */
export function showResult(text: string, kind: Transform | 'denied' | 'done'): void {
  const result = byId('result');
  result.textContent = text;
  result.className = `result-${kind}`;
}

export function showPolicy(transform: Transform, rules: AccessRule[]): void {
  const input = document.querySelector<HTMLInputElement>(`input[value=${transform}]`);
  if (input) input.checked = true;
  byId('rules').textContent = formatJson(rules[0], 46);
  byId('lane-backend').textContent = `grants ${transform}`;
}

export function showCountdown(lifetime: { createdAt: number; end: number } | undefined): void {
  const clock = byId('countdown');
  const label = clock.querySelector('p') as HTMLElement;
  if (!lifetime) return;
  const remaining = Math.max(0, lifetime.end - Date.now());
  const seconds = Math.ceil(remaining / 1000);
  clock.style.setProperty('--remaining', String(remaining / (lifetime.end - lifetime.createdAt)));
  clock.dataset.state = remaining === 0 ? 'expired' : seconds <= 10 ? 'short' : 'active';
  label.textContent = remaining === 0 ? 'session expired' : `session expires in ${seconds} s`;
  byId('lane-browser').textContent = label.textContent;
}

/** `entries` are newest first. */
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
