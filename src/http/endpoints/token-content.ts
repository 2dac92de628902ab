/** What a Token is to hold: from a new body, or from what it holds and a patch. */

import { z } from 'zod';
import { type Difference, difference } from '../../domain/audit.ts';
import { fail, throwIfInvalid } from '../../domain/error.ts';
import { JsonText } from '../../domain/json-text.ts';
import { type Mask, MaskError, renderMask } from '../../domain/mask.ts';
import { mergePatch } from '../../domain/merge-patch.ts';
import { type Principal, permit, permitNamed } from '../../domain/principal.ts';
import { needsReveal } from '../../domain/reveal-required.ts';
import {
  Data,
  defaultContainer,
  defaultType,
  TokenContentFields,
  type TokenPatch,
} from '../../domain/token.ts';
import { stricter, type Transform } from '../../domain/transform.ts';
import { validate } from '../../domain/validate.ts';
import type { StoredToken, TokenContent } from '../../store/store.ts';

/** All that is written of a Token but its data. */
const OpenFields = TokenContentFields.omit({ data: true });
type OpenFields = z.output<typeof OpenFields>;
const DataField = z.object({ data: Data });

export function contentOf(fields: z.output<typeof TokenContentFields>, now: number): TokenContent {
  const { data, mask } = fields;
  const masked = mask === undefined ? undefined : rendered(mask, data.value);
  return { ...openContent(fields, now), data: data.json, masked };
}

function openContent({ type, container, mask, metadata, expires_at }: OpenFields, now?: number) {
  if (now !== undefined && expires_at !== undefined && expires_at <= now)
    throwIfInvalid({ expires_at: ['must be in the future'] });
  return {
    type: type ?? defaultType,
    container: container ?? defaultContainer,
    mask,
    metadata,
    expiresAt: expires_at,
  };
}

function rendered(mask: Mask, data: unknown): JsonText {
  try {
    return JsonText.of(renderMask(mask, data));
  } catch (error) {
    if (!(error instanceof MaskError)) throw error;
    throw fail('validation_failed', { errors: { mask: [error.message] } });
  }
}

/**
 * What the patch makes of the Token. The caller needs `token:update` in the old and in the new container; the
 * stricter transform shows the result. Data that the caller does not see is not parsed, checked or rendered.
 */
export function revised(
  principal: Principal,
  current: StoredToken,
  patch: TokenPatch,
): { content: TokenContent; transform: Transform; difference: Difference } {
  const here = permit(principal, 'token:update', current);
  const { type, container, mask, metadata, expires_at } = current.token;
  const { data: newData, ...rest } = patch;
  const merged = mergePatch({ type, container, mask, metadata, expires_at }, rest);
  const fields = validate(OpenFields, merged, 'body');
  const open = openContent(fields, patch.expires_at === undefined ? undefined : principal.now);
  const next = { id: current.id, container: open.container };
  const there = permitNamed(principal, 'token:update', next);

  const stored = current.plaintext();
  const merges = isObject(newData) && stored.text.startsWith('{');
  const remasks = patch.mask !== undefined && patch.mask !== null;
  const keeps = newData === undefined || merges;
  if (keeps && needsReveal(principal, { from: current, to: next, remasks, merges }))
    throw fail('reveal_required');

  const data =
    newData === undefined
      ? stored
      : validate(DataField, { data: mergePatch(merges ? stored.value() : undefined, newData) }, 'body').data
          .json;
  const masked = () => {
    if (open.mask === undefined) return undefined;
    return newData === undefined && !remasks ? current.masked() : rendered(open.mask, data.value());
  };
  const content = { ...open, data, masked: masked() };
  return { content, transform: stricter(here, there), difference: changed(current.token, content, patch) };
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

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
