/** Computes the content of a token to write: from the body of a new token, or from the stored token and a patch. */

import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { type Difference, difference } from '../../domain/audit.ts';
import { requireFuture, timestamp } from '../../domain/common-fields.ts';
import { Denial } from '../../domain/denial.ts';
import { type Errors, throwIfInvalid } from '../../domain/error.ts';
import { type DecidingRule, decidingRule, explain, ruleOf } from '../../domain/explain.ts';
import { JsonText } from '../../domain/json-text.ts';
import { MaskError, renderMask } from '../../domain/mask.ts';
import { type Allowed, decideUnder } from '../../domain/policy.ts';
import {
  commonWriter,
  needsReveal,
  type Principal,
  permit,
  permitNamed,
  questionOf,
  writerOf,
} from '../../domain/principal.ts';
import { tokenVersion } from '../../domain/row-version.ts';
import { canonicalContainer, stricter, type Transform } from '../../domain/rule.ts';
import { renderSearch } from '../../domain/search.ts';
import { inTurns, type Steps } from '../../domain/steps.ts';
import {
  containerOf,
  Data,
  defaultContainer,
  defaultType,
  isObject,
  mergePatch,
  readOnlyErrors,
  TokenContentFields,
  type TokenPatch,
  type TokenReplace,
  withTemplates,
} from '../../domain/token.ts';
import { validate } from '../../domain/validate.ts';
import type { LockedToken, TokenContent, TokenRecord, TokenRevision } from '../../store/store.ts';
import type { Call } from '../pipeline/route.ts';

/** The fields that are not encrypted. */
const OpenFields = withTemplates(TokenContentFields.omit({ data: true }));
type OpenFields = z.output<typeof OpenFields>;
const DataField = z.object({ data: Data });

export function contentOf(fields: z.output<typeof TokenContentFields>, principal: Principal): TokenContent {
  const open = openContent(fields, principal.now);
  const writtenBy = writerOf(principal);
  return { ...open, data: fields.data.json, writtenBy, ...rendered(open, fields.data.value) };
}

function openContent(fields: OpenFields, now?: number) {
  const { type, mask, search = {}, metadata, max_uses, expires_at } = fields;
  if (now !== undefined) requireFuture(expires_at, now);
  const isSearchable = Object.keys(search).length > 0;
  if (isSearchable && max_uses !== undefined)
    throwIfInvalid({ search: ['cannot be combined with `max_uses`'] });
  return {
    type: type ?? defaultType,
    container: containerOf(fields) ?? defaultContainer,
    mask,
    search: isSearchable ? search : undefined,
    metadata,
    maxUses: max_uses,
    expiresAt: expires_at,
  };
}

/** Throws `validation_failed` with the errors of all templates. */
function rendered({ mask, search = {} }: ReturnType<typeof openContent>, data: unknown) {
  const errors: Errors = {};
  const orError = <T>(field: string, render: () => T): T | undefined => {
    try {
      return render();
    } catch (error) {
      if (!(error instanceof MaskError)) throw error;
      errors[field] = [error.message];
      return undefined;
    }
  };
  const masked = mask === undefined ? undefined : orError('mask', () => JsonText.of(renderMask(mask, data)));
  const searchValues = renderSearch(search, data, (name, render) => orError(`search.${name}`, render) ?? '');
  throwIfInvalid(errors);
  return { masked, searchValues };
}

export interface PatchedContent {
  readonly content: TokenRevision;
  readonly transform: Transform;
  readonly rule: DecidingRule | undefined;
  /** The data that the caller may see. */
  readonly visibleData: JsonText | undefined;
  readonly difference: Difference;
}

/**
 * Applies a patch. The caller needs `token:update` in the old and the new container. The response uses the stricter of
 * the two transforms. Stored data is decrypted only to merge a patch, to render a new mask or search template, or for the response.
 */
export async function patchedContent(
  call: Call<unknown, unknown, TokenPatch>,
  current: LockedToken,
): Promise<PatchedContent> {
  const { principal, body: patch } = call;
  const before = permit(principal, 'token:update', current);
  const { type, mask, search, metadata, max_uses, expires_at } = current.token;
  const { data: newData, ...rest } = patch;
  // `containers` is a synonym of `container`, so it replaces the stored container.
  const container = patch.containers === undefined ? current.token.container : undefined;
  const merged = mergePatch({ type, container, mask, search, metadata, max_uses, expires_at }, rest);
  const fields = validate(OpenFields, merged, 'body');
  const open = openContent(fields, patch.expires_at === undefined ? undefined : principal.now);
  const next = { id: current.id, container: open.container, max_uses };
  const { id, container: oldContainer } = current;
  const after = permitNamed(principal, 'token:update', next, {
    id,
    container: oldContainer,
    isStored: true,
    createdBy: current.token.created_by,
  });

  const renders = [patch.mask, patch.search].some((set) => set !== undefined && set !== null);
  const mergedInto = isObject(newData) ? await current.plaintext() : undefined;
  const merges = mergedInto?.text.startsWith('{') === true;
  const keeps = newData === undefined || merges;
  if (keeps && needsReveal(principal, { from: current, to: next, renders, merges }))
    throw revealRequired(principal, current);
  if (patch.expires_at !== undefined) permitExpiry(principal, current, open.expiresAt);
  call.requireMatch(tokenVersion(current));
  if (keeps && (renders || merges)) {
    const disclosure = {
      tokens: [current],
      transform: 'reveal',
      rule: ruleOf(principal.kind, before),
    } as const;
    call.examined = { operation: 'token.read', disclosures: [disclosure] };
  }

  const writesAll = !keeps && (search === undefined || open.search === undefined);
  const writes = newData !== undefined || (patch.search !== undefined && patch.search !== null);
  const earlier = current.writtenBy ?? undefined;
  const writtenBy = writesAll
    ? writerOf(principal)
    : writes
      ? commonWriter(earlier, writerOf(principal))
      : earlier;
  const stored = merges ? mergedInto : keeps && renders ? await current.plaintext() : undefined;
  const content = await inTurns(revisedContent({ ...open, writtenBy }, stored, newData));
  const transform = stricter(before.transform, after.transform);
  const decisive = transform === before.transform ? before : after;
  return {
    content,
    transform,
    rule: ruleOf(principal.kind, decisive),
    visibleData: await readVisibleData(transform, content, current),
    difference: contentDifference(current.token, content, patch),
  };
}

/**
 * The content of a replaced token. Nothing of the old data stays, so it needs no `reveal`. Throws `validation_failed` if
 * the new data is the masked value that the caller can read: somebody has edited what a masked response shows.
 */
export async function replacedContent(
  call: Call<unknown, unknown, TokenReplace>,
  current: LockedToken,
): Promise<PatchedContent> {
  const { principal, body } = call;
  const before = permit(principal, 'token:update', current);
  permitExpiry(principal, current, body.expires_at);
  call.requireMatch(tokenVersion(current));
  throwIfInvalid(readOnlyErrors(current.token, body));
  const masking = maskingVerdict(principal, current);
  const masked = masking && (await current.masked());
  if (masked && isDeepStrictEqual(masked.value(), body.data.value)) {
    const rule = ruleOf(principal.kind, masking);
    call.examined = {
      operation: 'token.read',
      disclosures: [{ tokens: [current], transform: 'mask', rule }],
    };
    throwIfInvalid({ data: ['is the masked value: send the new data, or PATCH the other fields'] });
  }
  const { type, container, max_uses } = current.token;
  const content = contentOf({ ...body, type, container, max_uses, containers: undefined }, principal);
  const { transform } = before;
  const { mask, search, metadata, expiresAt } = content;
  const after = { mask, search, metadata, expires_at: expiresAt && timestamp(expiresAt) };
  const fields = Object.keys(difference<Partial<typeof after>>(current.token, after, replaceable));
  return {
    content,
    transform,
    rule: ruleOf(principal.kind, before),
    visibleData: await readVisibleData(transform, content, current),
    difference: Object.fromEntries(['data', ...fields].map((field) => [field, {}])),
  };
}

const replaceable = ['mask', 'search', 'metadata', 'expires_at'] as const;

/** How the caller can read the masked value of the token. Undefined if it can see all of the data, or none. */
function maskingVerdict({ policy, ceiling }: Principal, token: LockedToken): Allowed | undefined {
  for (const permission of ['token:read', 'token:update']) {
    const verdict = decideUnder(policy, ceiling, permission, token);
    if (verdict.allowed && verdict.transform === 'mask') return verdict;
  }
  return undefined;
}

/**
 * An earlier expiry deletes the token sooner, so it needs `token:delete`. A token with `max_uses` must not be stored for
 * longer than its creator said. Throws `validation_failed` if it would be.
 */
function permitExpiry(principal: Principal, current: LockedToken, next = Number.POSITIVE_INFINITY): void {
  const { max_uses, expires_at } = current.token;
  const now = expires_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(expires_at);
  if (next < now) permit(principal, 'token:delete', current);
  if (next > now && max_uses !== undefined)
    throwIfInvalid({ expires_at: ['cannot be made later or removed, because the token has `max_uses`'] });
}

/** `stored` is what a patch of the data is merged into, or what the templates render without one. */
function* revisedContent(
  open: ReturnType<typeof openContent> & Pick<TokenRevision, 'writtenBy'>,
  stored: JsonText | undefined,
  patch: unknown,
): Steps<TokenRevision> {
  const before = stored?.value();
  yield;
  if (patch === undefined) return { ...open, data: stored, ...(stored && rendered(open, before)) };
  const merged = mergePatch(before, patch);
  yield;
  const { value, json } = validate(DataField, { data: merged }, 'body').data;
  yield;
  const revised = { ...open, data: json, ...rendered(open, value) };
  yield;
  return revised;
}

const neverRevealed =
  'No key has the transform `reveal` for a token with `max_uses`. Its mask and parts of its data cannot be changed. Delete it and create another one, or replace its data: first send `{"data": "", "mask": null}`, then the new values.';

function revealRequired(principal: Principal, current: LockedToken): Denial {
  const { id, container, token } = current;
  const question = questionOf(principal);
  const { reason } = explain(question, 'token:update', current);
  const rule = decidingRule(question, 'token:update', current);
  return new Denial(
    'reveal_required',
    token.max_uses === undefined ? undefined : neverRevealed,
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

/** Says only that data, mask, search, metadata or expiry changed. Their values must not be in the audit log. */
function contentDifference(
  before: TokenRecord['token'],
  content: TokenRevision,
  patch: TokenPatch,
): Difference {
  const withoutValues = (['data', 'mask', 'search', 'metadata', 'expires_at'] as const).filter(
    (field) => patch[field] !== undefined,
  );
  return {
    ...difference<Pick<TokenRevision, 'type' | 'container'>>(before, content, ['type', 'container']),
    ...Object.fromEntries(withoutValues.map((field) => [field, {}])),
  };
}
