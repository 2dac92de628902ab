/** Errors that operators see. */
import { chainName } from './records.ts';

/** The export cannot be completed, because some of its entries are no longer in the database. */
export class EntriesDeleted extends Error {}

/** Another program has changed the chain, so its entries are evidence and must not be deleted. */
export class DamagedChain extends Error {
  readonly hint = 'run `sallyport audit verify`';
  constructor(tenantId: string, done: 'deleted' | 'moved' = 'deleted') {
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
