/** Sessions, delegations and the principals of keys in memory. */
import { type ApplicationRow, toText } from '../../src/store/applications.ts';
import { fromKey, fromSession } from '../../src/store/credentials.ts';
import { endOf, kindOf, toSession } from '../../src/store/sessions.ts';
import type { Credentials, SessionFilter, Sessions } from '../../src/store/store.ts';
import { hex, type Memory, page, type SessionRow } from './memory.ts';

export function credentials(memory: Memory): Credentials {
  const { id: tenant_id, tag, max_lifetime, purposes } = memory.tenant;
  const ofTenant = {
    tenant_id,
    tag,
    max_lifetime: max_lifetime === undefined ? null : max_lifetime * 1000,
    purposes: purposes ? JSON.stringify(purposes) : null,
  };
  const find: Credentials['find'] = ({ kind, digest }) => {
    const [name, now] = [hex(digest), memory.now()];
    if (kind !== 'ses' && kind !== 'dlg') {
      const key = memory.key(name);
      const application = key && memory.application(key.application_id);
      const workload = { issuer: null, subject: null, trust: null, jkt: null, person: null, ends_at: null };
      if (!key || !application) return undefined;
      const ofKey = { key_id: key.id, key_expires_at: key.expires_at };
      return fromKey({ ...application, ...ofTenant, ...ofKey, ...workload, now }, digest).principal;
    }
    const session = [...memory.rows.sessions.values()].find(({ key }) => key === name);
    if (!session || !memory.isSessionValid(session)) return undefined;
    const application = memory.application(session.application_id) as ApplicationRow;
    const authorizer = memory.rows.applications.get(session.authorized_by ?? '');
    const key = session.authorizer === null ? undefined : memory.key(session.authorizer);
    const ceiling = key && authorizer;
    const row = {
      ...session,
      ...ofTenant,
      now,
      allowed_origins: application.allowed_origins,
      allowed_networks: application.allowed_networks,
      quarantined_at: application.quarantined_at,
      session_quarantined_at: session.quarantined_at,
      authorizer_quarantined_at: authorizer?.quarantined_at ?? null,
      ceiling_permissions: ceiling?.permissions ?? null,
      ceiling_rules: ceiling?.rules ?? null,
      ceiling_application_id: key?.application_id ?? null,
      ceiling_key_id: key?.id ?? null,
      application_expires_at: application.expires_at,
      ceiling_expires_at: ceiling?.expires_at ?? null,
      ceiling_key_expires_at: key?.expires_at ?? null,
    };
    return fromSession(row, digest).principal;
  };
  return { isLocal: false, find };
}

export function sessions(memory: Memory): Sessions {
  return {
    create: async (_, { id, applicationId: application_id, key, nonce, jkt, createdAt, expiresAt }) => {
      const dates = { created_at: createdAt, expires_at: expiresAt };
      const digests = { key: hex(key), nonce: hex(nonce) };
      memory.saveSession({ ...pending, id, application_id, ...digests, ...dates, jkt: jkt ?? null });
    },
    delegate: async (
      _,
      { id, key, nonce, createdAt, expiresAt, by, ceiling, subject, maxUses, ...grants },
    ) => {
      const [permissions, rules] = toText(grants);
      const row = memory.saveSession({
        ...pending,
        ...{ id, application_id: by, key: hex(key), nonce: hex(nonce), permissions, rules },
        ...{ created_at: createdAt, authorized_at: createdAt, expires_at: expiresAt },
        ...{ authorized_by: by, authorizer: hex(ceiling), subject: subject ?? null },
        ...{ max_uses: maxUses ?? null, uses: maxUses === undefined ? null : 0 },
      });
      return endOf(memory.endsOf(row));
    },
    spendUse: async (_, id) => {
      const row = memory.rows.sessions.get(id);
      if (!row || row.max_uses === null || !memory.isValid(row)) return false;
      const uses = (row.uses ?? 0) + 1;
      if (uses > row.max_uses) return false;
      memory.saveSession({ ...row, uses, expires_at: uses < row.max_uses ? row.expires_at : memory.now() });
      return true;
    },
    count: async () => 0,
    authorize: async (_, nonce, authorization) => {
      const {
        ceiling,
        unlimitedBy,
        expiresAt,
        latest: end = Infinity,
        maxLifetime,
        by,
        subject,
        ...grants
      } = authorization;
      const row = [...memory.rows.sessions.values()].find((each) => each.nonce === hex(nonce));
      const application = row && memory.application(row.application_id);
      if (!row || !application || !memory.isValid(row)) return { outcome: 'unknown' };
      if (row.authorized_at !== null) return { outcome: 'used' };
      const latest = Math.min(row.created_at + maxLifetime, Number(application.expires_at ?? Infinity));
      if (expiresAt !== undefined && expiresAt > latest) return { outcome: 'too_long', latest };
      const [permissions, rules] = toText(grants);
      const next = memory.saveSession({
        ...row,
        ...{ permissions, rules, authorized_at: memory.now(), authorized_by: by, subject: subject ?? null },
        authorizer: ceiling ? hex(ceiling) : null,
        unlimited_by: unlimitedBy ? hex(unlimitedBy) : null,
        expires_at: expiresAt ?? Math.min(row.expires_at, end),
      });
      return { outcome: 'authorized', session: row.id, expiresAt: endOf(memory.endsOf(next)) };
    },
    list: async (_, filter, window) => {
      const found = [...memory.rows.sessions.values()].filter(
        (row) => memory.isSessionValid(row) && matches(row, filter),
      );
      return page(
        found,
        ({ id }) => id,
        window,
        (row) => viewOf(memory, row),
      );
    },
    end: async (_, id) => {
      const row = memory.session(id);
      memory.rows.sessions.delete(row?.id ?? '');
      return row && kindOf(row);
    },
    endAll: async (_, subject) => {
      for (const row of [...memory.rows.sessions.values()])
        if (row.subject === subject) memory.rows.sessions.delete(row.id);
    },
    setQuarantine: async (_, id, at) => {
      const row = memory.session(id);
      if (!row) return undefined;
      const before = viewOf(memory, row);
      if ((row.quarantined_at !== null) === (at !== undefined)) return { before, after: before };
      return { before, after: viewOf(memory, memory.saveSession({ ...row, quarantined_at: at ?? null })) };
    },
  };
}

/** The columns of a session before it is authorized. */
const pending = {
  ...{ permissions: '[]', rules: '[]', authorizer: null, unlimited_by: null, jkt: null },
  ...{ authorized_at: null, authorized_by: null, quarantined_at: null },
  ...{ subject: null, max_uses: null, uses: null },
} as const;

function viewOf(memory: Memory, row: SessionRow) {
  const derived = { tenant_id: memory.tenant.id, ceiling: row.authorizer !== null, bound: row.jkt !== null };
  return toSession({ ...row, ...derived, ...memory.endsOf(row) });
}

function matches(row: SessionRow, filter: SessionFilter): boolean {
  const { ids, application, authorizer, kind, state, subject } = filter;
  return (
    (!ids || ids.includes(row.id)) &&
    (!application || row.application_id === application) &&
    (!authorizer || row.authorized_by === authorizer) &&
    (!kind || kindOf(row) === kind) &&
    (!state || (row.authorized_at === null ? 'pending' : 'active') === state) &&
    (subject === undefined || row.subject === subject)
  );
}
