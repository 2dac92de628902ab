/** What a Token is to hold: from a new body, or from what it holds and a patch. */

import type { z } from 'zod';
import { type Difference, difference } from '../domain/audit.ts';
import { fail, refuse } from '../domain/error.ts';
import { JsonText } from '../domain/json-text.ts';
import { type Mask, MaskError, renderMask } from '../domain/mask.ts';
import { mergePatch } from '../domain/merge.ts';
import type { Resource } from '../domain/policy.ts';
import { explained, mostSeen, type Principal, permit } from '../domain/principal.ts';
import { defaultContainer, defaultType, TokenContentFields, type TokenPatch } from '../domain/token.ts';
import { compareTransforms, stricter, type Transform } from '../domain/transform.ts';
import type { StoredToken, TokenContent } from '../store/store.ts';
import { validate } from './validate.ts';

type Fields = z.output<typeof TokenContentFields>;

export function contentOf(fields: Fields, now: number, unseen = false): TokenContent {
  if (fields.expires_at !== undefined && fields.expires_at <= now)
    refuse({ expires_at: ['must be in the future'] });
  return filled(fields, unseen);
}

function filled(
  { type, container, data, mask, metadata, expires_at }: Fields,
  unseen: boolean,
): TokenContent {
  return {
    type: type ?? defaultType,
    container: container ?? defaultContainer,
    data: data.json,
    mask,
    masked: mask === undefined ? undefined : JsonText.of(rendered(mask, data.value, unseen)),
    metadata,
    expiresAt: expires_at,
  };
}

function rendered(mask: Mask, data: unknown, unseen: boolean): unknown {
  try {
    return renderMask(mask, data, () => performance.now(), unseen);
  } catch (error) {
    if (!(error instanceof MaskError)) throw error;
    throw fail('validation_failed', { errors: { mask: [error.message] } });
  }
}

/** Both where it lies and where it is to lie, the permission must be held; the stricter transform shows the result. */
export function revised(
  principal: Principal,
  current: StoredToken,
  patch: TokenPatch,
): { content: TokenContent; transform: Transform; difference: Difference } {
  const here = permit(principal, 'token:update', current, false);
  const { type, container, mask, metadata, expires_at } = current.token;
  const data = current.plaintext().value();
  const merged = mergePatch({ type, container, data, mask, metadata, expires_at }, patch);
  const fields = validate(TokenContentFields, merged, 'body');
  const next = { id: current.id, container: fields.container ?? defaultContainer };
  const transform = stricter(here, permit(principal, 'token:update', next, true));
  const unseen = transform !== 'reveal' && stays(patch, data);
  if (unseen && isNew(patch.mask)) throw maskNotAllowed(principal, transform === here ? current : next);
  if (stays(patch, data)) refuseUncovering(principal, current, next);
  const untouched = patch.data === undefined && !isNew(patch.mask);
  const unjudged = unseen || untouched;
  const content =
    patch.expires_at === undefined ? filled(fields, unjudged) : contentOf(fields, principal.now, unjudged);
  return { content, transform, difference: changed(current.token, content, patch) };
}

/** Of data and metadata only that they changed: what they hold stays out of the log. */
function changed(
  before: StoredToken['token'],
  { type, container }: TokenContent,
  patch: TokenPatch,
): Difference {
  const silent = (['data', 'mask', 'metadata', 'expires_at'] as const).filter(
    (field) => patch[field] !== undefined,
  );
  return {
    ...difference({ type: before.type, container: before.container }, { type, container }, [
      'type',
      'container',
    ]),
    ...Object.fromEntries(silent.map((field) => [field, {}])),
  };
}

function maskNotAllowed(principal: Principal, resource: Resource) {
  const own = explained({ ...principal, ceiling: undefined } as Principal, 'token:update', resource);
  const reason = own.transform === 'reveal' ? 'this Session may see no more than its authorizer' : own.reason;
  return fail('mask_not_allowed', {
    detail: `A new mask over data that stays needs the permission token:update with the transform reveal, or the data along with it: ${reason}.`,
  });
}

const showing = ['token:read', 'token:update'];

/** Who sees little of the data where it lies does not get to see more of it by moving it. */
function refuseUncovering(principal: Principal, from: Resource, to: Resource): void {
  const [here, there] = [from, to].map((place) => mostSeen(principal, showing, place) ?? 'redact') as [
    Transform,
    Transform,
  ];
  if (compareTransforms(there, here) <= 0) return;
  throw fail('permission_missing', {
    detail: `This moves data that stays from where this key sees it with the transform ${here} to where it would with ${there}. That needs as much where it lies, or the data along with it.`,
  });
}

/** Whether anything of the data stays: a new mask over it could show what the caller itself may not see. */
function stays(patch: TokenPatch, data: unknown): boolean {
  return patch.data === undefined || (isObject(patch.data) && isObject(data));
}

function isNew(mask: unknown): boolean {
  return mask !== undefined && mask !== null;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
