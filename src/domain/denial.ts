/** Denied access, with the data that the audit log records about it. */
import { type EntryDecision, type EntryResource, resourceOf } from './audit.ts';
import { type Code, Failure } from './error.ts';
import type { Resource } from './policy.ts';

/** `isStored`: whether the resource is an existing token. If not, the caller may have made up its id and container. */
export interface DeniedResource extends Resource {
  readonly isStored: boolean;
  /** The application that created the token, if it is known. */
  readonly createdBy?: string | undefined;
}

/** The response contains only the code and the detail. `decision` and `resource` are for the audit log. */
export class Denial extends Failure {
  readonly decision: EntryDecision;
  readonly resource: EntryResource | undefined;
  readonly isStored: boolean;
  readonly createdBy: string | undefined;

  constructor(code: Code, detail: string | undefined, decision: EntryDecision, resource?: DeniedResource) {
    super(code, { detail });
    this.decision = decision;
    this.resource = resource && resourceOf([resource]);
    this.isStored = resource?.isStored === true;
    this.createdBy = resource?.createdBy;
  }
}
