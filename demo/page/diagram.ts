/** A sequence diagram of requests and responses, in the order in which they happened. */
import type { Party, RecordedRequest } from '../recording-fetch.ts';
import { formatJson, markNonce } from './json.ts';
import { byId, element } from './panels.ts';

const lanes: readonly Party[] = ['browser', 'backend', 'sallyport'];

interface Line {
  readonly when: number;
  /** Order within a millisecond: requests from the browser inward, then responses outward. */
  readonly rank: number;
  readonly draw: () => HTMLElement;
}

const queue: Line[] = [];
let drawing = false;

/** Milliseconds to wait before drawing, so that an earlier event that arrives late is drawn first. */
const reorderDelay = 60;
const reducedMotion = matchMedia('(prefers-reduced-motion: reduce)').matches;
const lineInterval = reducedMotion ? 0 : 420;

export function addHeading(text: string): void {
  push({ when: Date.now(), rank: -1, draw: () => element('li', 'heading', text) });
}

export function addRequest(exchange: RecordedRequest): void {
  const { at, response, from, to } = exchange;
  const inner = from === 'backend' ? 1 : 0;
  if (response === undefined) push({ when: at, rank: inner, draw: () => arrow(exchange, from, to) });
  else push({ when: at + response.took, rank: 3 - inner, draw: () => arrow(exchange, to, from) });
}

function push(line: Line): void {
  queue.push(line);
  queue.sort((one, other) => one.when - other.when || one.rank - other.rank);
  if (!drawing) void drawQueue();
}

async function drawQueue(): Promise<void> {
  drawing = true;
  await pause(reorderDelay);
  for (let line = queue.shift(); line; line = queue.shift()) {
    const drawn = line.draw();
    const list = byId('lines');
    list.append(drawn);
    while (list.children.length > 80) list.firstChild?.remove();
    drawn.scrollIntoView({ block: 'nearest', behavior: reducedMotion ? 'auto' : 'smooth' });
    await pause(drawn.className === 'heading' ? 0 : lineInterval);
  }
  drawing = false;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function arrow({ method, path, key, body, response }: RecordedRequest, from: Party, to: Party): HTMLElement {
  const [start, end] = [lanes.indexOf(from), lanes.indexOf(to)];
  const [left, right] = [Math.min(start, end), Math.max(start, end)];
  const label = response
    ? element(
        'p',
        'label',
        element('b', statusClass(response.status), `${response.status}`),
        ` ${summary(response)}`,
      )
    : element(
        'p',
        'label',
        element('b', '', method),
        ` ${path}`,
        ...(key ? [element('code', 'key', key)] : []),
      );
  const content = response ? response.body : body;
  const line = element(
    'li',
    `arrow ${start < end ? 'forward' : 'back'} ${response ? 'response' : 'request'}`,
  );
  line.style.setProperty('--start', String(left + 1));
  line.style.setProperty('--end', String(right + 2));
  line.append(label, element('div', 'shaft', element('i', '')));
  if (content !== undefined) line.append(element('pre', '', ...markNonce(formatJson(content, 58))));
  return line;
}

function statusClass(status: number): string {
  return status < 300 ? 'good' : 'bad';
}

function summary({ status, body }: NonNullable<RecordedRequest['response']>): string {
  const code = (body as { code?: string } | undefined)?.code;
  if (code) return code;
  return { 200: 'OK', 201: 'Created', 204: 'No Content' }[status] ?? '';
}
