/** Copies tokens in batches, and compares each copy with its source. */
import {
  ConflictError,
  ProblemError,
  type Sallyport,
  type Token,
  ValidationError,
} from '../../../sdk/src/sallyport.ts';
import { parseDateTime } from '../../domain/common-fields.ts';
import { canonicalContainer } from '../../domain/rule.ts';
import { defaultType } from '../../domain/token.ts';
import { ErrorAbout } from '../errors.ts';
import type { MappedToken } from './import-mapping.ts';
import type { Fault, Origin } from './import-source.ts';

type Mapped = Extract<MappedToken, { token: unknown }>;

export interface TokenCounts {
  read: number;
  copied: number;
  /** Tokens that exist in the target with the same content. */
  unchanged: number;
  /** Tokens that differed, and were deleted and created again. */
  replaced: number;
  /** Tokens that exist in the target with other content. They were not replaced. */
  different: number;
  expired: number;
  failed: number;
  /** Tokens that were read back from the target and are equal to the source. */
  verified: number;
  /** Verified tokens whose data could not be compared, because the target key may not see it. */
  dataNotCompared: number;
  /** Tokens without a container in the source. */
  defaultContainer: number;
}

/** The tokens that were read, but not copied or compared because the import was interrupted. */
export function tokensLeft(counts: TokenCounts): number {
  const { read, copied, unchanged, replaced, different, expired, failed } = counts;
  return read - copied - unchanged - replaced - different - expired - failed;
}

export function noTokens(): TokenCounts {
  return {
    read: 0,
    copied: 0,
    unchanged: 0,
    replaced: 0,
    different: 0,
    expired: 0,
    failed: 0,
    verified: 0,
    dataNotCompared: 0,
    defaultContainer: 0,
  };
}

export interface CopyOptions {
  readonly dryRun: boolean;
  /** Whether tokens that differ are deleted and created again. */
  readonly replace: boolean;
  readonly reportFailure: (origin: Origin, fault: Fault) => void;
  /** When aborted, no further token is copied. Tokens that were copied are still compared. */
  readonly stop: AbortSignal;
}

/** The number of tokens per batch. The API accepts 100 ids per filter; long ids must fit into a URL. */
export const batchSize = 40;
const concurrency = 4;
/** An import can exceed the rate limit for tokens many times. */
const requestOptions = { retries: 20, timeout: 60_000 };

/**
 * Copies the tokens that are missing in the target, and compares those that exist, so it can be repeated. A dry run
 * only counts the tokens that would be copied.
 */
export async function copyBatch(
  service: Sallyport,
  batch: readonly Mapped[],
  counts: TokenCounts,
  { dryRun, replace, reportFailure, stop }: CopyOptions,
): Promise<void> {
  const existing = await readById(service, batch);
  const written: [mapped: Mapped, as: 'copied' | 'replaced'][] = [];
  const fail = (origin: Origin, fault: Fault) => {
    counts.failed++;
    reportFailure(origin, fault);
  };
  const copyOne = async (mapped: Mapped): Promise<void> => {
    const { token } = mapped;
    const found = existing.get(token.id);
    const difference = found && differenceOf(mapped, found);
    if (found && difference === undefined) {
      counts.unchanged++;
      return countVerified(counts, found);
    }
    if (found && !replace) {
      counts.different++;
      return reportFailure(mapped, {
        code: 'different',
        error: `is in the target with another ${difference}`,
      });
    }
    if (!dryRun) {
      if (found) await service.tokens.delete(token.id, requestOptions);
      const fault = await create(service, mapped);
      if (fault) return fail(mapped, fault);
      written.push([mapped, found ? 'replaced' : 'copied']);
    }
    counts[found ? 'replaced' : 'copied']++;
  };
  for (let from = 0; from < batch.length && !stop.aborted; from += concurrency)
    await Promise.all(batch.slice(from, from + concurrency).map(copyOne));
  const copies = await readById(
    service,
    written.map(([mapped]) => mapped),
  );
  for (const [mapped, as] of written) {
    const copy = copies.get(mapped.token.id);
    const difference = copy ? differenceOf(mapped, copy) : 'state: your key cannot read it there';
    if (copy && difference === undefined) countVerified(counts, copy);
    else {
      counts[as]--;
      fail(mapped, { code: 'copy_differs', error: `was copied, but the target has another ${difference}` });
    }
  }
}

function countVerified(counts: TokenCounts, { data }: Token): void {
  counts.verified++;
  if (data === undefined) counts.dataNotCompared++;
}

async function readById(service: Sallyport, batch: readonly Mapped[]): Promise<Map<string, Token>> {
  const found = new Map<string, Token>();
  if (batch.length === 0) return found;
  const id = batch.map(({ token }) => token.id);
  for await (const token of service.tokens.all({ id }, requestOptions)) found.set(token.id, token);
  return found;
}

/** Returns the reason if the target rejects the token. Throws if it would reject all tokens or is unavailable. */
async function create(service: Sallyport, { place, token }: Mapped): Promise<Fault | undefined> {
  try {
    await service.tokens.create(token, requestOptions);
    return undefined;
  } catch (error) {
    if (error instanceof ConflictError)
      return { code: 'token_exists', error: 'exists in the target, and your key cannot read it there' };
    if (error instanceof ValidationError) return { code: 'validation_failed', error: error.message };
    if (error instanceof ProblemError && error.status === 413)
      return { code: 'too_large', error: error.message };
    throw new ErrorAbout(place, error);
  }
}

/** The first field that differs. Undefined if none does. Compares only data that the target key may see. */
function differenceOf({ token, masked }: Mapped, copy: Token): string | undefined {
  const timeOf = (text: string | undefined) => (text === undefined ? undefined : parseDateTime(text));
  if ((token.type ?? defaultType) !== copy.type) return 'type';
  if (canonicalContainer(token.container) !== canonicalContainer(copy.container)) return 'container';
  if (!Bun.deepEquals(token.mask, copy.mask)) return 'mask';
  if (!Bun.deepEquals(token.search, copy.search)) return 'search';
  if (!Bun.deepEquals(token.metadata ?? {}, copy.metadata ?? {})) return 'metadata';
  if (token.max_uses !== copy.max_uses) return 'max_uses';
  if (timeOf(token.expires_at) !== timeOf(copy.expires_at)) return 'expiry';
  const isSame = [token.data, masked, undefined].some((data) => Bun.deepEquals(data, copy.data));
  return isSame ? undefined : 'data';
}
