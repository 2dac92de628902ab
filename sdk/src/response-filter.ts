/** Applies a decision's transform to a response of your API. */
import type { Decision } from './api.ts';

export interface FilterOptions {
  /** Names of sensitive JSON fields, at any depth. If the list is empty, only the permission is checked. */
  readonly fields: readonly string[];
  /** Returns the masked value of a field. The field is removed if this returns undefined or is not set. */
  readonly mask?: (value: unknown, field: string) => unknown;
  /**
   * What to do with a response that is not JSON when the transform is `mask` or `redact`. The fields cannot be found
   * in it, so the default is `deny` (403). Use `pass` if such responses contain no sensitive fields.
   */
  readonly notJson?: 'deny' | 'pass';
}

/** Removes or masks the sensitive fields of a JSON value. Returns it unchanged if the transform is `reveal`. */
export function applyTransform<T>(
  json: T,
  { transform }: Pick<Decision, 'transform'>,
  { fields, mask }: FilterOptions,
): T {
  if (transform === 'reveal') return json;
  const sensitive = new Set(fields);
  const maskValue = transform === 'mask' ? mask : undefined;
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== 'object' || value === null) return value;
    const filtered = Object.entries(value).map(([name, part]) => [
      name,
      sensitive.has(name) ? maskValue?.(part, name) : walk(part),
    ]);
    return Object.fromEntries(filtered.filter(([, part]) => part !== undefined));
  };
  return walk(json) as T;
}

export type FilterAction = 'pass' | 'filter' | 'deny';

/** Redirects and errors that are not JSON pass, because their body is a text of the framework. */
export function filterAction(
  { status, type }: { status: number; type: string | undefined },
  { transform }: Decision,
  { fields, notJson }: FilterOptions,
): FilterAction {
  if (transform === 'reveal' || fields.length === 0) return 'pass';
  if (isJson(type)) return 'filter';
  return status >= 300 || notJson === 'pass' ? 'pass' : 'deny';
}

function isJson(type = ''): boolean {
  return /^(application|text)\/([\w.-]+\+)?json\s*(;|$)/i.test(type.trim());
}

/** Filters JSON text. Returns undefined if the text is not valid JSON. */
export function filterJson(text: string, decision: Decision, options: FilterOptions): string | undefined {
  if (text.trim() === '') return text;
  const json = parseJson(text);
  return json && JSON.stringify(applyTransform(json.value, decision, options));
}

function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** Headers that depend on the unfiltered body and could reveal something about it. */
export const bodyHeaders = [
  'Content-Length',
  'ETag',
  'Digest',
  'Content-Digest',
  'Repr-Digest',
  'Content-MD5',
];

export interface Denial {
  readonly status: 400 | 401 | 403 | 503;
  readonly problem: {
    readonly type: string;
    readonly title: string;
    readonly status: number;
    readonly detail: string;
    readonly code: string;
    readonly request_id: string;
  };
  readonly headers: Readonly<Record<string, string>>;
}

const titles = {
  400: 'Invalid request',
  401: 'No valid key',
  403: 'Permission missing',
  503: 'Temporarily unavailable',
} as const;

/** `dpop` is for bound sessions: a new DPoP nonce and, if the proof was not accepted, the reason. */
export function denial(
  status: Denial['status'],
  code: string,
  detail: string,
  requestId: string,
  dpop?: Decision['dpop'],
): Denial {
  return {
    status,
    problem: { type: 'about:blank', title: titles[status], status, detail, code, request_id: requestId },
    headers: {
      'Content-Type': 'application/problem+json',
      'Cache-Control': 'no-store',
      ...(status === 401 && {
        'WWW-Authenticate': dpop?.error ? `DPoP error="${dpop.error}"` : 'ApiKey header="SVC-API-KEY"',
      }),
      ...(dpop && { 'DPoP-Nonce': dpop.nonce }),
    },
  };
}

export function cannotFilter(requestId: string): Denial {
  const detail = 'This key may see only part of the data, and this response cannot be filtered.';
  return denial(403, 'response_not_filterable', detail, requestId);
}
