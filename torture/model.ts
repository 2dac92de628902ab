/** A simple model of a tenant's credentials and tokens, to compare the service with. */
import { type NaiveGrants, naiveDecideUnder } from '../test/support/naive-policy.ts';

export interface ModelApplication {
  readonly id: string;
  readonly type: 'private' | 'public';
  grants: NaiveGrants;
  keys: { id: string; secret: string }[];
  readonly endsAt: number;
  gone: boolean;
}

export interface ModelSession {
  readonly secret: string;
  readonly nonce: string;
  readonly application: ModelApplication;
  readonly createdAt: number;
  endsAt: number;
  grants: NaiveGrants | undefined;
  /** The authorizer's key, if it limits the session. */
  ceiling: string | undefined;
}

export interface ModelToken {
  readonly id: string;
  readonly container: string;
  readonly data: string;
  readonly masked: string;
  readonly endsAt: number;
  gone: boolean;
}

interface Principal {
  readonly application: ModelApplication;
  readonly isSession: boolean;
  readonly grants: NaiveGrants;
  readonly ceiling: NaiveGrants | undefined;
}

export type View = { status: 200; data: string | undefined } | { status: 401 | 403 | 404 };

const nothing: NaiveGrants = { permissions: [], rules: [] };
const freely = ['session:authorize', 'application:create'];
const longestSession = 604_800_000;

export class Model {
  readonly now: () => number;
  readonly applications: ModelApplication[] = [];
  readonly sessions: ModelSession[] = [];
  readonly tokens: ModelToken[] = [];
  enabled = true;

  constructor(now: () => number) {
    this.now = now;
  }

  isAlive({ gone, endsAt }: { gone: boolean; endsAt: number }): boolean {
    return !gone && this.now() < endsAt;
  }

  principalOf(secret: string): Principal | undefined {
    if (!this.enabled) return undefined;
    const application = this.applications.find(({ keys }) => keys.some((key) => key.secret === secret));
    if (application) {
      const { grants } = application;
      return this.isAlive(application)
        ? { application, isSession: false, grants, ceiling: undefined }
        : undefined;
    }
    const session = this.sessions.find((each) => each.secret === secret);
    if (!session || this.now() >= session.endsAt || !this.isAlive(session.application)) return undefined;
    const above = session.ceiling === undefined ? undefined : this.principalOf(session.ceiling);
    if (session.ceiling !== undefined && !above) return undefined;
    return {
      application: session.application,
      isSession: true,
      grants: session.grants ?? nothing,
      ceiling: above?.grants,
    };
  }

  holds({ grants, ceiling }: Principal, permission: string): boolean {
    return [grants, ...(ceiling ? [ceiling] : [])].every(({ permissions, rules }) =>
      [permissions, ...rules.map((rule) => rule.permissions)].some((names) => names.includes(permission)),
    );
  }

  /** The expected response to reading a token with a key. */
  read(secret: string, token: ModelToken): View {
    const principal = this.principalOf(secret);
    if (!principal) return { status: 401 };
    if (!this.holds(principal, 'token:read')) return { status: 403 };
    if (!this.isAlive(token)) return { status: 404 };
    const verdict = naiveDecideUnder(principal.grants, principal.ceiling, 'token:read', token);
    if (!verdict.allowed) return { status: 403 };
    const { transform } = verdict;
    const data = transform === 'reveal' ? token.data : transform === 'mask' ? token.masked : undefined;
    return { status: 200, data };
  }

  /** The expected response to GET /applications/key. */
  whoami(secret: string): { status: 200; id: string } | { status: 401 | 403 } {
    const principal = this.principalOf(secret);
    if (!principal) return { status: 401 };
    return this.holds(principal, 'application:read')
      ? { status: 200, id: principal.application.id }
      : { status: 403 };
  }

  /** Returns the expected status of an authorization, and applies a successful one to the model. */
  authorize(secret: string, nonce: string, grants: NaiveGrants, endsAt: number | undefined): number {
    const principal = this.principalOf(secret);
    if (!principal) return 401;
    if (principal.isSession || principal.application.type === 'public') return 403;
    const free = freely.some((permission) => this.holds(principal, permission));
    const named = [grants.permissions, ...grants.rules.map((rule) => rule.permissions)].flat();
    if (!free && !named.every((permission) => this.holds(principal, permission))) return 403;
    const session = this.sessions.find((each) => each.nonce === nonce);
    if (!session || session.application.gone || this.now() >= session.endsAt) return 404;
    if (session.grants) return 409;
    const latest = Math.min(session.createdAt + longestSession, session.application.endsAt);
    if (endsAt !== undefined && endsAt > latest) return 400;
    session.grants = grants;
    session.ceiling = free ? undefined : secret;
    session.endsAt = endsAt ?? session.endsAt;
    return 204;
  }

  /** All keys ever issued, including revoked ones. */
  get secrets(): string[] {
    return [
      ...this.retired,
      ...this.applications.flatMap(({ keys }) => keys.map(({ secret }) => secret)),
      ...this.sessions.map(({ secret }) => secret),
    ];
  }

  readonly retired: string[] = [];

  retire(application: ModelApplication, keys = application.keys): void {
    this.retired.push(...keys.map(({ secret }) => secret));
    application.keys = application.keys.filter((key) => !keys.includes(key));
  }
}
