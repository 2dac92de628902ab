/** What a decision leaves of an answer of your own: all of it, some fields, or nothing. */
import type { Decision } from './api.ts';

export interface AnswerOptions {
  /** The fields of your JSON that the transform is about, at any depth. With none, only the permission counts. */
  readonly fields: readonly string[];
  /** What is shown of a field under `mask`; undefined removes it, as does leaving this out. */
  readonly mask?: (value: unknown, field: string) => unknown;
  /**
   * What becomes of an answer that is not JSON where the decision leaves only part of the data: it is refused,
   * since nobody knows where the fields are in it, unless you say that there are none.
   */
  readonly notJson?: 'refuse' | 'pass';
}

/** What the transform leaves of your JSON. */
export function applyTransform<T>(
  json: T,
  { transform }: Pick<Decision, 'transform'>,
  { fields, mask }: AnswerOptions,
): T {
  if (transform === 'reveal') return json;
  const hidden = new Set(fields);
  const shown = transform === 'mask' ? mask : undefined;
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== 'object' || value === null) return value;
    const kept = Object.entries(value).map(([name, part]) => [
      name,
      hidden.has(name) ? shown?.(part, name) : walk(part),
    ]);
    return Object.fromEntries(kept.filter(([, part]) => part !== undefined));
  };
  return walk(json) as T;
}

export type Fate = 'pass' | 'filter' | 'refuse';

/** Redirects and errors pass: what they show beside JSON is a sentence of the framework's. */
export function fateOf(
  { status, type }: { status: number; type: string | undefined },
  { transform }: Decision,
  { fields, notJson }: AnswerOptions,
): Fate {
  if (transform === 'reveal' || fields.length === 0) return 'pass';
  if (isJson(type)) return 'filter';
  return status >= 300 || notJson === 'pass' ? 'pass' : 'refuse';
}

function isJson(type = ''): boolean {
  return /^(application|text)\/([\w.-]+\+)?json\s*(;|$)/i.test(type.trim());
}

/** What is left of JSON text; undefined if it is none. */
export function leftOf(text: string, decision: Decision, options: AnswerOptions): string | undefined {
  if (text.trim() === '') return text;
  const json = parsed(text);
  return json && JSON.stringify(applyTransform(json.value, decision, options));
}

function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** What describes the whole answer, and would tell something about what was left out of it. */
export const ofTheWhole = [
  'Content-Length',
  'ETag',
  'Digest',
  'Content-Digest',
  'Repr-Digest',
  'Content-MD5',
];

export interface Refusal {
  readonly status: 401 | 403 | 503;
  readonly problem: object;
  readonly headers: Readonly<Record<string, string>>;
}

const titles = {
  401: 'No valid key',
  403: 'Permission missing',
  503: 'Temporarily unavailable',
} as const;

export function refusal(status: keyof typeof titles, detail: string): Refusal {
  return {
    status,
    problem: { type: 'about:blank', title: titles[status], status, detail },
    headers: {
      'Content-Type': 'application/problem+json',
      'Cache-Control': 'no-store',
      ...(status === 401 && { 'WWW-Authenticate': 'ApiKey header="SVC-API-KEY"' }),
    },
  };
}

export const notInPart = refusal(
  403,
  'The key may see only part of the data, and this answer cannot be shown in part.',
);
