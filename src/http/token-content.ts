/** What a Token is to hold: from a new body, or from what it holds and a patch. */

import type { z } from 'zod';
import { type Difference, difference } from '../domain/audit.ts';
import { fail, refuse } from '../domain/error.ts';
import { type Mask, MaskError, renderMask } from '../domain/mask.ts';
import { mergePatch } from '../domain/merge.ts';
import type { Resource } from '../domain/policy.ts';
import { explained, type Principal, permit } from '../domain/principal.ts';
import { defaultContainer, defaultType, TokenContentFields, type TokenPatch } from '../domain/token.ts';
import { stricter, type Transform } from '../domain/transform.ts';
import type { StoredToken, TokenContent } from '../store/store.ts';
import { validate } from './validate.ts';

type Fields = z.output<typeof TokenContentFields>;

export function contentOf(fields: Fields, now: number): TokenContent {
  if (fields.expires_at !== undefined && fields.expires_at <= now)
    refuse({ expires_at: ['must be in the future'] });
  return filled(fields);
}

function filled({ type, container, data, mask, metadata, expires_at }: Fields): TokenContent {
  return {
    type: type ?? defaultType,
    container: container ?? defaultContainer,
    data,
    mask,
    masked: mask === undefined ? undefined : rendered(mask, data),
    metadata,
    expiresAt: expires_at,
  };
}

function rendered(mask: Mask, data: unknown): unknown {
  try {
    return renderMask(mask, data, () => performance.now());
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
  const here = permit(principal, 'token:update', current);
  const { type, container, mask, metadata, expires_at } = current.token;
  const data = current.plaintext();
  const merged = mergePatch({ type, container, data, mask, metadata, expires_at }, patch);
  const fields = validate(TokenContentFields, merged, 'body');
  const next = { id: current.id, container: fields.container ?? defaultContainer };
  const transform = stricter(here, permit(principal, 'token:update', next));
  if (transform !== 'reveal' && showsMore(patch, data))
    throw maskNotAllowed(principal, transform === here ? current : next);
  const content = patch.expires_at === undefined ? filled(fields) : contentOf(fields, principal.now);
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
  const { reason } = explained(principal, 'token:update', resource);
  return fail('mask_not_allowed', {
    detail: `A new mask over data that stays needs the permission token:update with the transform reveal, or the data along with it: ${reason}.`,
  });
}

/** A new mask over data of which anything stays could show what the caller itself may not see. */
function showsMore(patch: TokenPatch, data: unknown): boolean {
  if (patch.mask === undefined || patch.mask === null) return false;
  const merges = isObject(patch.data) && isObject(data);
  return patch.data === undefined || merges;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
