/** Stored tokens: the repository, its inputs, results and filters. */
import type { JsonText } from '../domain/json-text.ts';
import type { Mask } from '../domain/mask.ts';
import type { Allowed } from '../domain/policy.ts';
import type { SearchTemplates, SearchValues } from '../domain/search.ts';
import type { Metadata, Token } from '../domain/token.ts';
import type { Visible } from '../domain/visible-scopes.ts';
import type { Change, ListPage, ListWindow, Reserve } from './records.ts';

/** Every change of a token results in a later `modified_at`, also within one millisecond. */
export interface Tokens {
  /** The storage of all tokens that the application has created. Expired tokens count until the sweep removes them. */
  storageUsed(tenant: string, application: string): Promise<StorageUsed>;
  /**
   * Creates a token. Encrypts its data and masked value, bound to this tenant, token and version. Returns undefined if
   * the id is taken.
   */
  create(tenant: string, id: string, content: TokenContent, change: Change): Promise<TokenRecord | undefined>;
  /**
   * Creates all tokens, or none and returns the ids that are taken: then roll the transaction back. Their order is that
   * of their age. Throws `storage_full` if the application would have more than `quota` bytes stored.
   */
  createAll(
    tenant: string,
    tokens: readonly { readonly id: string; readonly content: TokenContent }[],
    change: Change,
    quota?: number,
  ): Promise<{ readonly created: readonly TokenRecord[] } | { readonly taken: ReadonlySet<string> }>;
  /**
   * The newest token of the container with these search values that one of `writers` or a management application has
   * written. Concurrent transactions that call this for the same
   * container and values run one after another, so that each finds the token that an earlier one has created.
   */
  findEqual(
    tenant: string,
    container: string,
    values: SearchValues,
    writers: readonly string[],
    reserve?: Reserve,
  ): Promise<StoredToken | undefined>;
  get(tenant: string, id: string, reserve?: Reserve): Promise<StoredToken | undefined>;
  /** Changes with the token: see `tokenVersion`. Undefined if the token does not exist. */
  version(tenant: string, id: string): Promise<string | undefined>;
  /** What decisions about the tokens with these ids need, in any order. Ids that do not exist are left out. */
  locate(tenant: string, ids: readonly string[]): Promise<TokenLocation[]>;
  count(tenant: string, scan: TokenCountScan): Promise<TokenCounts>;
  /** Returns one page, with fewer tokens than `size` if their data is large. */
  list(tenant: string, query: TokenQuery): Promise<ListPage<ListedToken>>;
  /**
   * Calls `revise` with the current token and stores the content that it returns. Concurrent updates run one after
   * another. Data that does not change is neither read nor written. Throws `storage_full` if the token grows and its
   * creator would have more than `quota` bytes stored. Returns undefined if the token does not exist.
   */
  update(
    tenant: string,
    id: string,
    change: Change,
    revise: (current: LockedToken) => Promise<TokenRevision>,
    quota?: number,
    reserve?: Reserve,
  ): Promise<TokenRecord | undefined>;
  /** Deletes a token. Rejects without a change if `check` throws. Returns false if the token does not exist. */
  delete(tenant: string, id: string, check: (current: TokenRecord) => void): Promise<boolean>;
  /** Finds tokens to delete: one page, and at most 8 MiB. Reads no data. */
  find(tenant: string, query: TokenQuery): Promise<TokenSeqs>;
  /**
   * Deletes the tokens with these seqs for which `mayDelete` returns true, and returns them. It is called with the
   * current tokens, which cannot be moved until they are deleted. Tokens that no longer exist are left out. Ends after
   * a fraction of a second: if tokens are left, `next` is where a search for them starts.
   */
  deleteAll(
    tenant: string,
    seqs: readonly string[],
    mayDelete: (token: DecidedBy) => boolean,
  ): Promise<{ readonly deleted: readonly DecidedBy[]; readonly next: string | undefined }>;
  /**
   * Counts a use of a token with `max_uses`, and deletes the token with its last use. Concurrent uses run one after
   * another. Rejects without a change if `check` throws. Returns the number of uses that are left, or undefined if the
   * token does not exist.
   */
  spendUse(tenant: string, id: string, check: (current: TokenRecord) => void): Promise<number | undefined>;
}

/** A token without its data. */
export interface TokenRecord {
  readonly token: Omit<Token, 'data'>;
  readonly container: string;
  readonly id: string;
  readonly max_uses: number | null;
  /** Orders tokens by age. */
  readonly seq: string;
  readonly writtenBy: string | null;
}

/** Counts tokens in a container and below, newest first. */
export interface TokenCountScan {
  /** In canonical form. */
  readonly container: string;
  /** Maximum number of tokens to count. */
  readonly limit: number;
  /** The `next` of an earlier scan, to continue it. */
  readonly start?: string | undefined;
}

export interface TokenCounts {
  /** The number of tokens by their own container, in canonical form, and by whether they have `max_uses`. */
  readonly counts: readonly (Pick<TokenLocation, 'container' | 'max_uses'> & { readonly count: number })[];
  /** Where the next scan starts; undefined if all tokens were counted. */
  readonly next: string | undefined;
}

export interface TokenLocation {
  readonly id: string;
  readonly type: string;
  readonly container: string;
  readonly max_uses: number | null;
  readonly created_by: string | null;
}

/** A token whose data is decrypted on demand. */
export interface StoredToken extends TokenRecord {
  plaintext(): JsonText;
  /** Decrypts only the masked value, not the data. Returns undefined if the token has no mask. */
  masked(): JsonText | undefined;
}

/** A token that the open transaction has locked. Its data is read and decrypted on demand. */
export interface LockedToken extends TokenRecord {
  plaintext(): Promise<JsonText>;
  masked(): Promise<JsonText | undefined>;
}

export interface TokenContent {
  readonly type: string;
  readonly container: string;
  readonly data: JsonText;
  readonly mask: Mask | undefined;
  /** The data with the mask applied. */
  readonly masked: JsonText | undefined;
  readonly search?: SearchTemplates | undefined;
  /** The values of the search templates. Only their keyed hashes are stored. */
  readonly searchValues?: SearchValues | undefined;
  /** Who wrote data and search templates, as `writerOf` names it. Undefined if not the same. */
  readonly writtenBy?: string | undefined;
  readonly metadata: Metadata | undefined;
  /** An update does not change it. */
  readonly maxUses?: number | undefined;
  readonly expiresAt: number | undefined;
}

/**
 * The new content of a token. Without `data`, the stored data does not change, and the masked value and the search
 * values change only if the mask or the templates are removed. A new mask needs `data` and `masked`, because both are
 * encrypted again. New templates need `data` and `searchValues`.
 */
export interface TokenRevision extends Omit<TokenContent, 'data' | 'masked'> {
  readonly data?: JsonText | undefined;
  readonly masked?: JsonText | undefined;
}

export interface TokenFilter {
  readonly ids?: readonly string[] | undefined;
  readonly type?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Values that the search templates of the token have rendered to. */
  readonly equals?: SearchValues | undefined;
  /** Created at or after this time, in milliseconds. */
  readonly createdAfter?: number | undefined;
  /** Created before this time, in milliseconds. */
  readonly createdBefore?: number | undefined;
  /** Expires before this time, in milliseconds. */
  readonly expiresBefore?: number | undefined;
  /** The application that created it. */
  readonly createdBy?: string | undefined;
}

export interface TokenQuery extends ListWindow {
  /** Limits which rows are read. Must include every token that `decide` allows. */
  readonly visible: Visible;
  /** Called once per token, and again if the token was moved before it was read. Undefined leaves it out of the list. */
  readonly decide: (token: DecidedBy) => Allowed | undefined;
  readonly filter: TokenFilter;
}

/** Tokens that were found, newest first. */
export interface TokenSeqs {
  readonly seqs: readonly string[];
  /** Where the next page starts, like in lists. */
  readonly next: string | undefined;
}

/** All that a decision about a listed token may depend on. While it is the same, the verdict stays valid. */
export type DecidedBy = Pick<TokenLocation, 'id' | 'container' | 'max_uses'>;

/**
 * A token with its data as the transform of its verdict shows it. `data` is undefined with the transform `redact`, and
 * with `mask` if the token has no mask.
 */
export interface ListedToken {
  readonly seq: string;
  readonly token: Omit<Token, 'data'>;
  readonly data: JsonText | undefined;
  readonly verdict: Allowed;
}

export interface StorageUsed {
  readonly tokens: number;
  readonly bytes: number;
}
