/** Computes the content of a token to write: from the body of a new token, or from the stored token and a patch. */
import { z } from 'zod';
import { type Difference, difference } from '../../domain/audit.ts';
import { requireFuture } from '../../domain/common-fields.ts';
import { Denial } from '../../domain/denial.ts';
import { fail } from '../../domain/error.ts';
import { type DecidingRule, decidingRule, explain } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { type Mask, MaskError, renderMask } from '../../domain/mask.ts';
import { needsReveal, type Principal, permit, permitNamed, questionOf } from '../../domain/principal.ts';
import { tokenVersion } from '../../domain/row-version.ts';
import { canonicalContainer, stricter, type Transform } from '../../domain/rule.ts';
import {
  containerOf,
  Data,
  defaultContainer,
  defaultType,
  isObject,
  mergePatch,
  TokenContentFields,
  type TokenPatch,
} from '../../domain/token.ts';
import { validate } from '../../domain/validate.ts';
import type { LockedToken, TokenContent, TokenRecord, TokenRevision } from '../../store/store.ts';
import type { RequireMatch } from '../pipeline/etag.ts';

/** The fields that are not encrypted. */
const OpenFields = TokenContentFields.omit({ data: true });
type OpenFields = z.output<typeof OpenFields>;
const DataField = z.object({ data: Data });

export function contentOf(fields: z.output<typeof TokenContentFields>, now: number): TokenContent {
  const { data, mask } = fields;
  const masked = mask === undefined ? undefined : renderOrReject(mask, data.value);
  return { ...openContent(fields, now), data: data.json, masked };
}

function openContent(fields: OpenFields, now?: number) {
  const { type, mask, metadata, expires_at } = fields;
  if (now !== undefined) requireFuture(expires_at, now);
  return {
    type: type ?? defaultType,
    container: containerOf(fields) ?? defaultContainer,
    mask,
    metadata,
    expiresAt: expires_at,
  };
}

function renderOrReject(mask: Mask, data: unknown): JsonText {
  try {
    return JsonText.of(renderMask(mask, data));
  } catch (error) {
    if (!(error instanceof MaskError)) throw error;
    throw fail('validation_failed', { errors: { mask: [error.message] } });
  }
}

export interface PatchedContent {
  readonly content: TokenRevision;
  readonly transform: Transform;
  /** The rule that decided on the transform. */
  readonly rule: DecidingRule | undefined;
  /** The data that the caller may see. */
  readonly visibleData: JsonText | undefined;
  readonly difference: Difference;
}

/**
 * Applies a patch. The caller needs `token:update` in the old and the new container. The response uses the stricter of
 * the two transforms. Stored data is decrypted only to merge a patch, to render a new mask, or for the response.
 */
export async function patchedContent(
  principal: Principal,
  current: LockedToken,
  patch: TokenPatch,
  requireMatch: RequireMatch,
): Promise<PatchedContent> {
  const oldTransform = permit(principal, 'token:update', current);
  const { type, mask, metadata, expires_at } = current.token;
  const { data: newData, ...rest } = patch;
  // `containers` is a synonym of `container`, so it replaces the stored container.
  const container = patch.containers === undefined ? current.token.container : undefined;
  const merged = mergePatch({ type, container, mask, metadata, expires_at }, rest);
  const fields = validate(OpenFields, merged, 'body');
  const open = openContent(fields, patch.expires_at === undefined ? undefined : principal.now);
  const next = { id: current.id, container: open.container };
  const { id, container: oldContainer } = current;
  const newTransform = permitNamed(principal, 'token:update', next, {
    id,
    container: oldContainer,
    isStored: true,
    createdBy: current.token.created_by,
  });

  const remasks = patch.mask !== undefined && patch.mask !== null;
  const mergedInto = isObject(newData) ? await current.plaintext() : undefined;
  const merges = mergedInto?.text.startsWith('{') === true;
  const keeps = newData === undefined || merges;
  if (keeps && needsReveal(principal, { from: current, to: next, remasks, merges }))
    throw revealRequired(principal, current);
  requireMatch(tokenVersion(current));

  const data =
    newData === undefined
      ? remasks
        ? await current.plaintext()
        : undefined
      : validate(DataField, { data: mergePatch(merges ? mergedInto?.value() : undefined, newData) }, 'body')
          .data.json;
  const masked = data && open.mask !== undefined ? renderOrReject(open.mask, data.value()) : undefined;
  const content = { ...open, data, masked };
  const transform = stricter(oldTransform, newTransform);
  const decidedBy = transform === oldTransform ? current : next;
  return {
    content,
    transform,
    rule: decidingRule(questionOf(principal), 'token:update', decidedBy),
    visibleData: await readVisibleData(transform, content, current),
    difference: contentDifference(current.token, content, patch),
  };
}

function revealRequired(principal: Principal, { id, container, token }: LockedToken): Denial {
  const question = questionOf(principal);
  const { reason } = explain(question, 'token:update', { id, container });
  const rule = decidingRule(question, 'token:update', { id, container });
  return new Denial(
    'reveal_required',
    undefined,
    {
      reason: `the change needs token:update with the transform reveal, but ${reason}`,
      ...(rule && { rule }),
      missing: { permission: 'token:update', container: canonicalContainer(container), transform: 'reveal' },
    },
    { id, container, isStored: true, createdBy: token.created_by },
  );
}

/** The data that the caller may see after the update. Unchanged data is decrypted from the stored token. */
function readVisibleData(transform: Transform, { data, mask, masked }: TokenRevision, current: LockedToken) {
  if (transform === 'reveal') return data ?? current.plaintext();
  if (transform === 'redact' || mask === undefined) return undefined;
  return data ? masked : current.masked();
}

/** Says only that data, mask, metadata or expiry changed. Their values must not be in the audit log. */
function contentDifference(
  before: TokenRecord['token'],
  content: TokenRevision,
  patch: TokenPatch,
): Difference {
  const withoutValues = (['data', 'mask', 'metadata', 'expires_at'] as const).filter(
    (field) => patch[field] !== undefined,
  );
  return {
    ...difference<Pick<TokenRevision, 'type' | 'container'>>(before, content, ['type', 'container']),
    ...Object.fromEntries(withoutValues.map((field) => [field, {}])),
  };
}
