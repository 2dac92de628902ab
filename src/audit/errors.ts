/** Errors that operators see. */
import { chainName } from './records.ts';

/** The export cannot be completed, because some of its entries are no longer in the database. */
export class EntriesDeleted extends Error {}

/** The chain was changed after it was signed. Its entries are evidence, and are not deleted until an operator acts. */
export class DamagedChain extends Error {
  readonly hint =
    'run `sallyport audit verify`, and see "If the log does not verify" in docs/operations/audit.md';
  constructor(tenantId: string, done: 'deleted' | 'moved' | 'sealed' | 'delivered' = 'deleted') {
    super(`the audit chain ${chainName(tenantId)} does not verify, so its entries cannot be ${done}`);
  }
}

/** An archive file does not verify, or its entries differ from the database. No entry was deleted. */
export class ArchiveError extends Error {
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}
