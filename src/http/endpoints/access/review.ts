/**
 * Finds every application and session with a permission on a resource, riskiest transform first. The order is: all with
 * `reveal`, then `mask`, then `redact`; in each group applications before sessions, newest first.
 */
import { type Resource, transformUnder } from '../../../domain/policy.ts';
import type { Transform } from '../../../domain/rule.ts';
import type { RunSteps, Steps } from '../../../domain/steps.ts';
import type { Store, Subject } from '../../../store/store.ts';

import { ScanBudget, type ScannedKind, type ScanPosition, scanSubjects, tableOf } from './subject-scan.ts';

export const riskiestFirst = ['reveal', 'mask', 'redact'] as const satisfies readonly Transform[];
export const kinds = ['application', 'session'] as const satisfies readonly ScannedKind[];

export interface Review {
  readonly tenantId: string;
  readonly permission: string;
  readonly resource: Resource;
}

/** Where a page starts: at the first subject with `transform` after the position `after`. */
export interface ReviewPosition {
  readonly transform: Transform;
  readonly after: ScanPosition;
}

export interface FoundSubject extends Pick<Subject, 'kind' | 'id'> {
  readonly transform: Transform;
}

export interface ReviewPage {
  readonly found: readonly FoundSubject[];
  readonly next: ReviewPosition | undefined;
  /** Undefined for a page by cursor, and if there are too many subjects to count in one request. */
  readonly totals?: Record<Transform, number>;
  /** Whether the page number is too high to be reached. */
  readonly tooDeep?: boolean;
}

const maxListed = 10_000;

/** Returns a page by number. Reads all subjects to count them by transform. */
export async function reviewPage(
  store: Store,
  run: RunSteps,
  review: Review,
  page: number,
  size: number,
  budget = new ScanBudget(),
): Promise<ReviewPage> {
  const [start, end] = [(page - 1) * size, page * size];
  const groups: Record<Transform, FoundSubject[]> = { reveal: [], mask: [], redact: [] };
  const totals: Record<Transform, number> = { reveal: 0, mask: 0, redact: 0 };
  const isDeep = start >= maxListed;
  const stoppedAt = await examine(store, run, review, undefined, budget, (subject) => {
    totals[subject.transform]++;
    if (!isDeep && groups[subject.transform].length < end) groups[subject.transform].push(subject);
    return true;
  });
  const total = totals.reveal + totals.mask + totals.redact;
  if (isDeep && (stoppedAt || total > start)) return { found: [], next: undefined, tooDeep: true };
  if (stoppedAt) return incompletePage(groups.reveal.slice(start), size, page, stoppedAt);
  const listed = riskiestFirst.flatMap((transform) => groups[transform]);
  const found = listed.slice(start, end);
  return { found, totals, next: total > end ? positionAfter(found) : undefined };
}

/** Makes a page after the budget ended early. It has only subjects with `reveal`, because these come first. */
function incompletePage(
  revealed: readonly FoundSubject[],
  size: number,
  page: number,
  stoppedAt: ScanPosition,
): ReviewPage {
  const found = revealed.slice(0, size);
  if (found.length === size) return { found, next: positionAfter(found) };
  return { found, next: { transform: 'reveal', after: stoppedAt }, tooDeep: page > 1 };
}

/** Returns the page after a position. Reads the subjects once for each transform, until the page is full. */
export async function reviewAfter(
  store: Store,
  run: RunSteps,
  review: Review,
  { transform: first, after }: ReviewPosition,
  size: number,
  budget = new ScanBudget(),
): Promise<ReviewPage> {
  const found: FoundSubject[] = [];
  for (const transform of riskiestFirst.slice(riskiestFirst.indexOf(first))) {
    const from = transform === first ? after : undefined;
    const stoppedAt = await examine(store, run, review, from, budget, (subject) => {
      if (subject.transform === transform) found.push(subject);
      return found.length <= size;
    });
    if (found.length > size)
      return { found: found.slice(0, size), next: positionAfter(found.slice(0, size)) };
    if (stoppedAt) return { found, next: { transform, after: stoppedAt } };
  }
  return { found, next: undefined };
}

function positionAfter(found: readonly FoundSubject[]): ReviewPosition | undefined {
  const last = found.at(-1);
  return last && { transform: last.transform, after: { kind: tableOf(last.kind), before: last.id } };
}

/**
 * Calls `take` for each subject that has access, until `take` returns false. Returns the current position if the budget
 * ended first, otherwise undefined.
 */
async function examine(
  store: Store,
  run: RunSteps,
  { tenantId, permission, resource }: Review,
  from: ScanPosition | undefined,
  budget: ScanBudget,
  take: (subject: FoundSubject) => boolean,
): Promise<ScanPosition | undefined> {
  const scan = scanSubjects(store, tenantId, { kinds, permission, from }, budget);
  for (;;) {
    const step = await scan.next();
    if (step.done) return step.value;
    if (!(await run(takeAll(step.value)))) return undefined;
  }

  function* takeAll(subjects: readonly Subject[]): Steps<boolean> {
    for (const subject of subjects) {
      yield;
      const { kind, id } = subject;
      const transform = transformUnder(subject.grants, subject.ceiling, permission, resource);
      if (transform && !take({ kind, id, transform })) return false;
    }
    return true;
  }
}

/** Encodes 17 bytes: one for transform and kind, 16 for the id. */
export function encodePosition({ transform, after: { kind, before } }: ReviewPosition): string {
  const first = riskiestFirst.indexOf(transform) * kinds.length + kinds.indexOf(kind);
  return Buffer.from([first, ...Buffer.from(before.replaceAll('-', ''), 'hex')]).toString('base64url');
}

export function decodePosition(text: string): ReviewPosition | undefined {
  const bytes = Buffer.from(text, 'base64url');
  const first = bytes[0] ?? 255;
  const transform = riskiestFirst[Math.floor(first / kinds.length)];
  const kind = kinds[first % kinds.length];
  if (bytes.length !== 17 || !transform || !kind || bytes.toString('base64url') !== text) return undefined;
  const id = bytes.toString('hex', 1).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  return { transform, after: { kind, before: id } };
}
