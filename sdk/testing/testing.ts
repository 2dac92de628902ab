/** The implementation of `@sallyport/sdk/testing`: the routes of the service, with a store in memory. */

import { fail } from '../../src/domain/error.ts';
import { applicationKinds, keyDigest, mint, newId, newTag } from '../../src/domain/key.ts';
import { type BuiltIn, builtIn, hasTrait } from '../../src/domain/permission.ts';
import { Proofs } from '../../src/http/dpop/proofs.ts';
import { updateApplication } from '../../src/http/endpoints/application-update.ts';
import {
  createApplication,
  deleteApplication,
  getApplication,
  getApplicationByKey,
  listApplications,
  regenerateKey,
} from '../../src/http/endpoints/applications.ts';
import { decide } from '../../src/http/endpoints/decisions.ts';
import { createKey, deleteKey, listKeys } from '../../src/http/endpoints/keys.ts';
import { revokeKey } from '../../src/http/endpoints/leaked-keys.ts';
import { listOwnPermissions, listPermissions } from '../../src/http/endpoints/permissions.ts';
import {
  quarantineApplication,
  quarantineSession,
  releaseApplication,
  releaseSession,
} from '../../src/http/endpoints/quarantine.ts';
import {
  authorizeSession,
  createDelegation,
  createSession,
  endSession,
  endSessions,
  getSession,
  listSessions,
} from '../../src/http/endpoints/sessions.ts';
import { getTenant } from '../../src/http/endpoints/tenants.ts';
import { createToken, createTokens } from '../../src/http/endpoints/token-creation.ts';
import {
  deleteToken,
  deleteTokens,
  getToken,
  listTokens,
  replaceToken,
  searchTokens,
  updateToken,
} from '../../src/http/endpoints/tokens.ts';
import { Limits, type Rates } from '../../src/http/pipeline/limits.ts';
import { LongWork } from '../../src/http/pipeline/long-work.ts';
import { problemResponse } from '../../src/http/pipeline/problem.ts';
import { noConnections, RequestInfo } from '../../src/http/pipeline/request-info.ts';
import { memoryLimits, RequestMemory } from '../../src/http/pipeline/request-memory.ts';
import {
  anyKey,
  type HandlerContext,
  keysOf,
  type Method,
  noKey,
  type Route,
  route,
} from '../../src/http/pipeline/route.ts';
import { handlersByPath } from '../../src/http/server.ts';
import type { Store, StoreTransaction, Tenant } from '../../src/store/store.ts';
import { operations, requiredPermissions } from '../src/api.ts';
import type { fakeSallyport as Declared, RecordedRequest } from '../src/testing.ts';
import { idempotency, Memory } from './memory.ts';
import { applications, keys } from './memory-applications.ts';
import { credentials, sessions } from './memory-sessions.ts';
import { tokens } from './memory-tokens.ts';

const endpoints = [
  ...[createApplication, listApplications, getApplication, getApplicationByKey, updateApplication],
  ...[regenerateKey, deleteApplication, createKey, listKeys, deleteKey, revokeKey],
  ...[quarantineApplication, releaseApplication, quarantineSession, releaseSession],
  ...[createSession, authorizeSession, createDelegation, listSessions, getSession, endSession, endSessions],
  ...[createToken, createTokens, listTokens, getToken, replaceToken, updateToken, searchTokens],
  ...[deleteToken, deleteTokens],
  ...[decide, getTenant, listPermissions, listOwnPermissions],
];

/** The access of the endpoints that require no permission. */
const access = new Map([
  ['createSession', keysOf('public')],
  ['authorizeSession', keysOf('private', 'management')],
  ['createDelegation', keysOf('private')],
  ['listOwnPermissions', anyKey],
]);

type Operation = readonly [method: Method, path: string];
const table: Readonly<Record<string, Operation>> = operations;
const permissionOf: Readonly<Record<string, BuiltIn | undefined>> = requiredPermissions;

/** `{id}` of OpenAPI becomes `:id`. */
const patternOf = (path: string) => path.replaceAll(/\{(\w+)\}/g, ':$1');

export const supported: readonly Route[] = endpoints.map((endpoint) => {
  const [method, path] = table[endpoint.name] as Operation;
  return route(
    method,
    patternOf(path),
    permissionOf[endpoint.name] ?? access.get(endpoint.name) ?? noKey,
    endpoint,
  );
});

/** Operations of the service that the fake does not have, and requests to destinations. */
const unsupported = [...Object.values(table).map(([, path]) => patternOf(path)), '/proxy/:name/*'].filter(
  (path) => supported.every((each) => each.path !== path),
);

const second = 1000;
const week = 604_800 * second;

export const fakeSallyport: typeof Declared = (options = {}) => {
  const { url = 'http://sallyport.test', now: clock = Date.now, sessionTtl = 180, purposes } = options;
  let moved = 0;
  const now = () => clock() + moved;
  const tenant: Tenant = {
    id: newId(now()),
    tag: newTag(),
    name: 'test',
    created_at: new Date(now()).toISOString(),
    ...(purposes && { purposes }),
  };
  const memory = new Memory(tenant, now);
  const key = addManagement(memory);
  const handlers = handlersByPath(supported, contextOf(memory, url, sessionTtl * second), noConnections);
  const requests: RecordedRequest[] = [];

  const answer = async (request: Request, path: string): Promise<Response> => {
    const found = match(Object.keys(handlers), path);
    const isPreview = new URL(request.url).searchParams.get('dry_run') === 'true';
    if (found && isPreview) return notSupported(request, `${path}?dry_run=true`);
    if (found)
      return (handlers[found.pattern] as (typeof handlers)[string])(withParams(request, found.params));
    if (match(unsupported, path)) return notSupported(request, path);
    return problemResponse(fail('path_unknown'), new RequestInfo(request, noConnections), log);
  };

  const send = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    request.signal.throwIfAborted();
    const { origin, pathname, search } = new URL(request.url);
    if (origin !== new URL(url).origin)
      throw new Error(`fakeSallyport answers requests to ${url}, and not to ${origin}`);
    const text = await request.clone().text();
    const response = await answer(request, pathname);
    requests.push({
      method: request.method,
      path: pathname + search,
      headers: Object.fromEntries(request.headers),
      body: parsed(text),
      status: response.status,
    });
    return response;
  };

  return {
    url,
    key,
    fetch: send as typeof globalThis.fetch,
    requests,
    expireSessions: () => memory.expireSessions(),
    revoke: (revoked) => {
      if (!memory.revoke(keyDigest(revoked)))
        throw new Error('revoke: no application or session has this key');
    },
    advance: (milliseconds) => {
      moved += milliseconds;
    },
  };
};

function addManagement(memory: Memory): string {
  const key = mint(applicationKinds.management, memory.tenant.tag);
  const at = memory.now();
  const permissions = builtIn.filter((name) => !hasTrait(name, 'destination'));
  const grants = { permissions, rules: [] };
  const name = `${memory.tenant.name}: first management key`;
  const application = { id: newId(at), name, type: 'management', ...grants } as const;
  const created = { createdBy: undefined, createdAt: at, expiresAt: undefined };
  // Not awaited: in memory, it is done at once.
  void applications(memory).create(memory.tenant.id, { ...application, ...created }, key);
  return key.secret.reveal();
}

const nothing = () => {};
const doNothing = async () => {};
const log = {
  ...{ isEnabled: () => false, debug: nothing, info: nothing, warn: nothing, flush: nothing },
  error: (...logged: unknown[]) => console.error(...logged),
};

/** What the fake does not have. Requests that need it get 500 with this text. */
function missing<T extends object>(name: string, has: Partial<T> = {}): T {
  const detail = `fakeSallyport does not support ${name}: use a running service for this test.`;
  const refuse = () => {
    throw fail('internal', { detail, expected: true });
  };
  return new Proxy(has as T, { get: (target, method) => target[method as keyof T] ?? refuse });
}

function storeOf(memory: Memory): Store {
  const shared = {
    credentials: credentials(memory),
    applications: applications(memory),
    keys: keys(memory),
    sessions: sessions(memory),
    tokens: tokens(memory),
    destinations: missing<Store['destinations']>('destinations'),
  };
  const transaction: StoreTransaction = {
    ...shared,
    idempotency: idempotency(memory),
    record: nothing,
    signReport: missing<StoreTransaction>('reports').signReport,
  };
  return {
    ...shared,
    usage: missing('usage'),
    requestCounts: missing('request counts'),
    subjects: missing('access reviews'),
    tenants: { get: async () => memory.tenant },
    audit: missing<Store['audit']>('the audit log', { write: doNothing }),
    change: (_, work) => memory.change(() => work(transaction)),
    durable: doNothing,
    revokeKey: async ({ digest }) => void memory.revoke(digest),
    findWorkloadTarget: missing<Store>('workloads').findWorkloadTarget,
    findSignInTargets: missing<Store>('sign-in').findSignInTargets,
    findPersonSessions: missing<Store>('sign-in').findPersonSessions,
    spendLogout: missing<Store>('sign-in').spendLogout,
    ping: async () => ({ isDiskFull: false }),
  };
}

function contextOf(memory: Memory, publicUrl: string, sessionTtl: number): HandlerContext {
  const unlimited = { rate: 0, per: second, burst: 0 };
  const rates = new Proxy({} as Rates, { get: () => unlimited });
  const limits = new Limits(rates, memory.now, nothing);
  const noQuota = { reserve: async () => nothing };
  return {
    store: storeOf(memory),
    log,
    trail: { reads: 'off', record: () => undefined, writeDue: doNothing, flush: doNothing },
    limits,
    pendingSessions: noQuota,
    longRules: noQuota,
    delegations: noQuota,
    storage: noQuota,
    storageQuota: undefined,
    longWork: new LongWork(limits),
    memory: new RequestMemory(memoryLimits(2 ** 30)),
    outbound: missing('destinations'),
    usage: { request: nothing, record: nothing, flush: doNothing },
    requestCounter: { count: nothing, flush: doNothing },
    observer: missing<HandlerContext['observer']>('metrics', { decision: nothing, limited: nothing }),
    tracer: undefined,
    observed: false,
    idempotentRequests: new Set(),
    link: undefined,
    publicUrl,
    framesUrl: undefined,
    proofs: new Proofs(crypto.getRandomValues(new Uint8Array(32))),
    issuerKeys: missing('workloads'),
    signIn: missing('sign-in'),
    sessionTtl,
    sessionTtlMax: week,
    ready: () => true,
    position: () => undefined,
    running: { version: 'test', schema: 0 },
    checkReplies: false,
  };
}

interface Match {
  readonly pattern: string;
  readonly params: Readonly<Record<string, string>>;
}

/** The pattern that matches the path: one without parameters, if possible. */
function match(patterns: readonly string[], path: string): Match | undefined {
  const segments = path.split('/');
  const found = patterns.flatMap((pattern): Match[] => {
    const parts = pattern.split('/');
    const isOpen = parts.at(-1) === '*';
    if (isOpen ? segments.length < parts.length : segments.length !== parts.length) return [];
    const params: Record<string, string> = {};
    const fits = parts.every((part, at) => {
      if (part.startsWith(':') && segments[at] !== '')
        params[part.slice(1)] = decoded(segments[at] as string);
      return part === '*' || part.startsWith(':') ? segments[at] !== '' : part === segments[at];
    });
    return fits ? [{ pattern, params }] : [];
  });
  return found.sort((a, b) => Object.keys(a.params).length - Object.keys(b.params).length)[0];
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Adds what Bun's server adds to a request. Node 20 has no `bytes`. */
function withParams(
  request: Request,
  params: Match['params'],
): Request & { readonly params: Match['params'] } {
  const bytes = async () => new Uint8Array(await request.arrayBuffer());
  const added = { params: { value: params, configurable: true }, bytes: { value: bytes } };
  return Object.defineProperties(request, added) as Request & { readonly params: Match['params'] };
}

function notSupported({ method }: Request, path: string): Response {
  const detail = `fakeSallyport does not support ${method} ${path}: use a running service for this test.`;
  const problem = { type: 'about:blank', title: 'Not supported', status: 501, detail, code: 'not_supported' };
  const headers = { 'Content-Type': 'application/problem+json' };
  return new Response(JSON.stringify(problem), { status: 501, headers });
}

function parsed(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}
