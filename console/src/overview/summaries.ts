/** Summaries for the overview. */
import type { AdviceEntry, Application, LogEntry } from '../../../sdk/src/sallyport.ts';

export interface Denials {
  readonly application: string;
  readonly count: number;
}

/** Denied requests by application, most first. Aggregated entries count with their number of events. */
export function mostDenied(entries: readonly LogEntry[], limit: number): Denials[] {
  const counts = new Map<string, number>();
  for (const { actor, count = 1 } of entries) {
    const id = actor.application_id ?? actor.id;
    if (id !== undefined) counts.set(id, (counts.get(id) ?? 0) + count);
  }
  return [...counts]
    .map(([application, count]) => ({ application, count }))
    .sort((a, b) => b.count - a.count)
    .slice(0, limit);
}

const day = 86_400_000;
export const horizons: readonly (readonly [label: string, days: number])[] = [
  ['Expired', 0],
  ['Next 24 hours', 1],
  ['Next 7 days', 7],
  ['Next 30 days', 30],
  ['Later', Number.POSITIVE_INFINITY],
];

export interface Expiries {
  /** How many applications expire within each horizon. Each is counted only in the first horizon that includes it. */
  readonly counts: readonly number[];
  /** The applications that expire first. */
  readonly next: readonly Application[];
}

export function expiriesOf(applications: readonly Application[], now: number, limit: number): Expiries {
  const expiring = applications.filter(({ expires_at }) => expires_at !== undefined);
  const timeOf = ({ expires_at = '' }: Application) => Date.parse(expires_at);
  const counts = horizons.map(() => 0);
  for (const application of expiring) {
    const index = horizons.findIndex(([, days]) => timeOf(application) - now <= days * day);
    counts[index] = (counts[index] ?? 0) + 1;
  }
  const next = expiring.filter((each) => timeOf(each) > now).sort((a, b) => timeOf(a) - timeOf(b));
  return { counts, next: next.slice(0, limit) };
}

const management = /^(application|session|access|log|tenant):/;

/** Higher is riskier: permissions to manage the service, then `reveal`, then the rest. */
export function riskOf({ permissions, rules }: Pick<Application, 'permissions' | 'rules'>): number {
  const granted = [...permissions, ...rules.flatMap((rule) => rule.permissions)];
  if (granted.some((name) => management.test(name))) return 2;
  return rules.some(({ transform }) => transform === 'reveal') ? 1 : 0;
}

const risks = ['management', 'reveal', 'change', 'mask', 'redact'];

/** Sorts applications by their riskiest unused grant, then by the number of unused grants. */
export function byRisk(a: AdviceEntry, b: AdviceEntry): number {
  const risk = ({ unused: [first] }: AdviceEntry) => (first ? risks.indexOf(first.risk) : risks.length);
  return risk(a) - risk(b) || b.unused.length - a.unused.length;
}
