/** What is sent and answered, line by line between the lanes, in the order in which it happened. */
import type { Exchange, Party } from '../exchange.ts';
import { compact, marked } from './json.ts';
import { byId, element } from './parties.ts';

const lanes: readonly Party[] = ['browser', 'backend', 'vault'];

interface Line {
  readonly when: number;
  /** Of two in the same millisecond: requests from outside in, then answers from inside out. */
  readonly rank: number;
  readonly draw: () => HTMLElement;
}

const waiting: Line[] = [];
let playing = false;

/** Milliseconds for which a line is held, so that one that happened before it can still come. */
const patience = 60;
const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
const pace = calm ? 0 : 420;

export function heading(words: string): void {
  push({ when: Date.now(), rank: -1, draw: () => element('li', 'heading', words) });
}

export function play(exchange: Exchange): void {
  const { at, answer, from, to } = exchange;
  const inner = from === 'backend' ? 1 : 0;
  if (answer === undefined) push({ when: at, rank: inner, draw: () => arrow(exchange, from, to) });
  else push({ when: at + answer.took, rank: 3 - inner, draw: () => arrow(exchange, to, from) });
}

function push(line: Line): void {
  waiting.push(line);
  waiting.sort((one, other) => one.when - other.when || one.rank - other.rank);
  if (!playing) void playAll();
}

async function playAll(): Promise<void> {
  playing = true;
  await pause(patience);
  for (let line = waiting.shift(); line; line = waiting.shift()) {
    const drawn = line.draw();
    const list = byId('lines');
    list.append(drawn);
    while (list.children.length > 80) list.firstChild?.remove();
    drawn.scrollIntoView({ block: 'nearest', behavior: calm ? 'auto' : 'smooth' });
    await pause(drawn.className === 'heading' ? 0 : pace);
  }
  playing = false;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function arrow({ method, path, key, body, answer }: Exchange, from: Party, to: Party): HTMLElement {
  const [start, end] = [lanes.indexOf(from), lanes.indexOf(to)];
  const [left, right] = [Math.min(start, end), Math.max(start, end)];
  const label = answer
    ? element('p', 'label', element('b', tone(answer.status), `${answer.status}`), ` ${gist(answer)}`)
    : element(
        'p',
        'label',
        element('b', '', method),
        ` ${path}`,
        ...(key ? [element('code', 'key', key)] : []),
      );
  const shown = answer ? answer.body : body;
  const line = element('li', `arrow ${start < end ? 'forth' : 'back'} ${answer ? 'answer' : 'request'}`);
  line.style.setProperty('--start', String(left + 1));
  line.style.setProperty('--end', String(right + 2));
  line.append(label, element('div', 'shaft', element('i', '')));
  if (shown !== undefined) line.append(element('pre', '', ...marked(compact(shown, 58))));
  return line;
}

function tone(status: number): string {
  return status < 300 ? 'good' : 'bad';
}

function gist({ status, body }: NonNullable<Exchange['answer']>): string {
  const code = (body as { code?: string } | undefined)?.code;
  if (code) return code;
  return { 200: 'OK', 201: 'Created', 204: 'done, nothing to show' }[status] ?? '';
}
