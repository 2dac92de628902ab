/** Examples for the OpenAPI document and the page of endpoints. A test validates them against the schemas. */
const id = '0197f3c2-5a1e-7c40-9d2b-3f8e6a1b4c5d';
const tenant = '0197f3c0-1b2c-7d3e-8f40-5a6b7c8d9e0f';
const creator = '0197f3c1-9e8d-7a6b-b5c4-d3e2f1a0b9c8';

const grants = {
  permissions: ['token:create'],
  rules: [
    {
      description: 'Support sees the last four digits',
      priority: 1,
      container: '/customers/',
      transform: 'mask',
      permissions: ['token:read'],
    },
  ],
};

const applicationCreate = {
  name: 'Support desk',
  type: 'private',
  ...grants,
  labels: { team: 'support' },
  expires_at: '2030-01-31T12:00:00Z',
};

const application = {
  id,
  tenant_id: tenant,
  name: 'Support desk',
  type: 'private',
  ...grants,
  labels: { team: 'support' },
  created_by: creator,
  created_at: '2026-11-15T09:30:00.000Z',
  expires_at: '2030-01-31T12:00:00.000Z',
};

const reportCreate = {
  from: '2026-10-01T00:00:00Z',
  to: '2026-11-01T00:00:00Z',
  files: [{ name: 'access.csv', sha256: '9b74'.repeat(16) }],
};

const applicationKey = {
  id: '0197f3c6-2d3e-7f40-9a5b-6c7d8e9f0a1b',
  ending: '7Qx2',
  created_by: creator,
  created_at: '2026-11-15T09:30:00.000Z',
  last_used_at: '2026-11-15T10:02:17.000Z',
};

const applicationUpdate = { name: 'Help desk', permissions: ['token:create', 'token:read'] };

const destinationCreate = {
  name: 'payments',
  origin: 'https://api.payments.example',
  requests: [
    {
      name: 'charge',
      description: 'Charge a card.',
      method: 'POST',
      path: '/v1/charges',
      placeholders: [{ at: '/card/number', from: '/number' }],
      reply: ['/id', '/status', 'header:request-id'],
    },
  ],
  headers: { authorization: 'Bearer sk_live_1234' },
};

const destination = {
  id: '0197f3c8-4f50-7b6c-8d7e-9f0a1b2c3d4e',
  tenant_id: tenant,
  name: 'payments',
  origin: 'https://api.payments.example',
  requests: [
    {
      name: 'charge',
      description: 'Charge a card.',
      method: 'POST',
      path: '/v1/charges',
      placeholders: [{ at: '/card/number', from: '/number' }],
      query: [],
      headers: [],
      reply: ['/id', '/status', 'header:request-id'],
    },
  ],
  header_names: ['authorization'],
  timeout: 25,
  max_in_flight: 50,
  ignored_headers: [],
  created_by: creator,
  created_at: '2026-11-15T09:30:00.000Z',
};

const tokenCreate = {
  id: 'card-42',
  type: 'card',
  container: '/customers/42/',
  data: { number: '4242424242424242', expiry: '12/30' },
  mask: { number: '{{ data.number | reveal_last: 4 }}', expiry: '{{ data.expiry }}' },
  search: { pan: '{{ data.number }}' },
  metadata: { customer: '42' },
};

const token = {
  ...tokenCreate,
  tenant_id: tenant,
  data: { number: 'XXXXXXXXXXXX4242', expiry: '12/30' },
  created_by: creator,
  created_at: '2026-11-15T09:30:00.000Z',
};

const sessionRules = [
  {
    description: 'Only this customer, masked',
    priority: 1,
    conditions: [{ attribute: 'container', operator: 'starts_with', value: '/customers/42/' }],
    transform: 'mask',
    permissions: ['token:read'],
  },
];

const session = {
  id: '0197f3c4-7b8c-7d9e-8a0b-1c2d3e4f5a6b',
  tenant_id: tenant,
  application_id: id,
  kind: 'session',
  state: 'active',
  subject: 'user:42',
  permissions: [],
  rules: sessionRules,
  created_at: '2026-11-15T09:30:00.000Z',
  authorized_at: '2026-11-15T09:30:01.000Z',
  authorized_by: creator,
  ceiling: false,
  bound: true,
  expires_at: '2026-11-15T09:33:00.000Z',
};

const logEntry = {
  id: '0197f3c5-0c0d-7e0f-8a1b-2c3d4e5f6a7b',
  tenant_id: tenant,
  at: '2026-11-15T09:30:00.000Z',
  actor: { kind: 'application', id: creator, application_id: creator },
  operation: 'application.update',
  entity: { kind: 'application', id },
  result: 'success',
  from: { ip: '192.0.2.7', user_agent: 'backend/1.4' },
  request_id: '5f0c1d7e-8b5a-4e0f-9b1a-6f2f4a1c9d3e',
  difference: { permissions: { from: ['token:create'], to: ['token:create', 'token:read'] } },
};

export function onePage(entry: object) {
  return {
    pagination: { total_items: 1, page_number: 1, page_size: 20, total_pages: 1 },
    data: [entry],
  };
}

const gateway = { type: 'user', id: 'Support desk' };
const card = { type: 'token', id: 'card-42' };
const base = 'https://keys.example.com';

const authzenDecision = {
  decision: true,
  context: {
    transform: 'mask',
    reason: 'rule 1 grants token:read with the transform mask: container /customers/42/ is in /customers/',
    rule: { of: 'application', rule: 1, description: 'Support sees the last four digits' },
  },
};

const authzen = {
  evaluation: { subject: gateway, action: { name: 'read' }, resource: card },
  decision: authzenDecision,
  evaluations: {
    subject: gateway,
    resource: card,
    evaluations: [{ action: { name: 'read' } }, { action: { name: 'delete' } }],
  },
  decisions: {
    evaluations: [
      authzenDecision,
      {
        decision: false,
        context: {
          reason: 'rule 1 matches but grants token:read, not token:delete',
          missing: { permission: 'token:delete', container: '/customers/42/' },
        },
      },
    ],
  },
  subjectSearch: { subject: { type: 'user' }, action: { name: 'read' }, resource: card },
  subjects: { page: { next_token: '', count: 1 }, results: [gateway] },
  resourceSearch: { subject: gateway, action: { name: 'read' }, resource: { type: 'token' } },
  resources: { page: { next_token: '', count: 1 }, results: [card] },
  actionSearch: { subject: gateway, resource: card },
  actions: { page: { next_token: '', count: 2 }, results: [{ name: 'create' }, { name: 'read' }] },
  configuration: {
    policy_decision_point: base,
    access_evaluation_endpoint: `${base}/access/v1/evaluation`,
    access_evaluations_endpoint: `${base}/access/v1/evaluations`,
    search_subject_endpoint: `${base}/access/v1/search/subject`,
    search_resource_endpoint: `${base}/access/v1/search/resource`,
    search_action_endpoint: `${base}/access/v1/search/action`,
  },
};

export const example = {
  authzen,
  accessReview: {
    data: [
      {
        subject: { type: 'application', id, name: 'Support desk' },
        permission: 'token:read',
        transform: 'mask',
        rule: { of: 'application', rule: 1, description: 'Support sees the last four digits' },
        last_used_at: '2026-11-15T10:02:00.000Z',
      },
    ],
    totals: { reveal: 0, mask: 1, redact: 0 },
    pagination: { total_items: 1, page_number: 1, page_size: 20, total_pages: 1 },
  },
  logCounts: {
    from: '2026-11-15T14:00:00.000Z',
    to: '2026-11-15T16:00:00.000Z',
    interval_seconds: 3600,
    totals: { success: 172, denied: 4, failed: 0 },
    denials: { total: 31, data: [0, 31], applications: [{ id, denials: 31 }] },
    data: [
      { from: '2026-11-15T14:00:00.000Z', success: 80, denied: 0, failed: 0 },
      { from: '2026-11-15T15:00:00.000Z', success: 92, denied: 4, failed: 0 },
    ],
  },
  requestCounts: {
    from: '2026-11-15T14:00:00.000Z',
    to: '2026-11-15T16:00:00.000Z',
    interval_seconds: 3600,
    totals: { requests: 20_450, denied: 4, p50_ms: 0.25, p99_ms: 2.5 },
    data: [
      { from: '2026-11-15T14:00:00.000Z', requests: 20_450, denied: 4, p50_ms: 0.25, p99_ms: 2.5 },
      { from: '2026-11-15T15:00:00.000Z', requests: 0, denied: 0 },
    ],
  },
  reportCreate,
  reportManifest: {
    id,
    tenant_id: tenant,
    created_by: creator,
    created_at: '2026-11-15T12:00:00.000Z',
    from: '2026-10-01T00:00:00.000Z',
    to: '2026-11-01T00:00:00.000Z',
    files: reportCreate.files,
    anchor: `${tenant}:5219:${'0f5c'.repeat(16)}`,
    signature: '1d83'.repeat(32),
  },
  accessAdvice: {
    data: [
      {
        application: { id, name: 'Support desk', type: 'private' },
        since: '2026-08-17T12:00:00.000Z',
        unused: [
          {
            rule: 1,
            permission: 'token:delete',
            container: '/customers/',
            transform: 'mask',
            risk: 'change',
          },
        ],
        counts: { management: 0, reveal: 0, change: 1, mask: 0, redact: 0 },
        proposal: {
          permissions: [],
          rules: [{ priority: 1, container: '/customers/', transform: 'mask', permissions: ['token:read'] }],
        },
      },
    ],
    pagination: { page_size: 20 },
  },
  accessDiff: {
    from: '2026-11-01T00:00:00.000Z',
    to: '2026-11-15T12:00:00.000Z',
    complete: true,
    unknown: [],
    data: [
      {
        application: { id, name: 'Support desk' },
        permission: 'token:read',
        container: '/customers/',
        from: 'denied',
        to: 'mask',
        events: [{ at: '2026-11-15T09:30:00.000Z', operation: 'application.create', by: creator }],
      },
    ],
  },
  logPage: { pagination: { page_size: 20 }, data: [logEntry] },
  tokenCreate,
  token,
  tokenPatch: { metadata: { customer: '42', checked: 'yes' } },
  tokenReplace: {
    data: { number: '5555555555554444', expiry: '01/31' },
    mask: '{{ data.number | reveal_last: 4 }}',
  },
  tokenBatch: { tokens: [{ data: '4242', metadata: { customer: '42' } }, { data: '5555' }] },
  tokenPage: onePage(token),
  tokenList: { data: [token] },
  tokenSearch: { equals: { pan: '4242424242424242' }, container: '/customers/' },
  tokenSearchPage: { pagination: { page_size: 20 }, data: [token] },
  decisionRequest: {
    credential: 'slp_ses_…',
    permission: 'token:read',
    resource: { id: 'card-42', container: '/customers/42/' },
  },
  decision: {
    principal: { kind: 'session', id, application_id: creator },
    allowed: true,
    transform: 'mask',
    reason: 'rule 1 grants token:read with the transform mask: container is /customers/42/',
    rule: { of: 'session', rule: 1, description: 'Only this customer, masked' },
  },
  applicationCreate,
  application,
  applicationUpdate,
  applicationUpdated: {
    ...application,
    ...applicationUpdate,
    rules: [],
    modified_by: creator,
    modified_at: '2026-11-16T14:05:00.000Z',
  },
  applicationQuarantined: {
    ...application,
    modified_by: creator,
    modified_at: '2026-11-16T14:05:00.000Z',
    quarantined_at: '2026-11-16T14:05:00.000Z',
  },
  applicationWithKey: { ...application, key: 'slp_pvt_…' },
  applicationKey,
  applicationKeyCreate: { expires_at: '2030-01-31T12:00:00Z', old_keys_expire_at: '2030-01-01T00:00:00Z' },
  tokenRequest: {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    client_id: `7bQx2M.${id}`,
    subject_token: 'eyJhbGciOiJSUzI1NiIs…',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
  },
  issuedKey: {
    access_token: 'slp_pvt_…',
    issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    token_type: 'N_A',
    expires_in: 900,
  },
  applicationRegenerate: { old_keys_expire_at: '2030-01-01T00:00:00Z' },
  applicationKeyCreated: {
    id: applicationKey.id,
    key: 'slp_pvt_…',
    ending: applicationKey.ending,
    created_by: creator,
    created_at: applicationKey.created_at,
    expires_at: '2030-01-31T12:00:00.000Z',
  },
  tenant: {
    id: tenant,
    tag: 'k3ZrT9',
    name: 'Second shop',
    created_at: '2026-11-15T09:00:00.000Z',
    applications: 12,
    max_lifetime: 7_776_000,
  },
  usage: {
    last_used_at: '2026-11-15T10:02:17.000Z',
    uses: [
      { permission: 'token:read', container: '/customers/42/', last_used_at: '2026-11-15T10:02:17.000Z' },
    ],
    unused: [{ rule: 'permissions', permission: 'token:create', container: '/' }],
    keys: [
      { id: applicationKey.id, ending: applicationKey.ending, days: [{ date: '2026-11-15', requests: 240 }] },
    ],
  },
  applicationPage: onePage(application),
  destinationCreate,
  destination,
  destinationPage: onePage(destination),
  destinationUpdate: { name: 'payments', requests: destinationCreate.requests, timeout: 10 },
  delegationCreate: { rules: sessionRules, subject: 'user:42', max_uses: 20 },
  delegationCreated: { id: session.id, key: 'slp_dlg_…', expires_at: '2026-11-15T09:33:00.000Z' },
  sessionCreated: { session_key: 'slp_ses_…', nonce: 'slp_non_…', expires_at: '2026-11-15T09:33:00.000Z' },
  sessionAuthorize: { nonce: 'slp_non_…', rules: sessionRules },
  session,
  sessionQuarantined: { ...session, quarantined_at: '2026-11-15T09:32:00.000Z' },
  sessionPage: onePage(session),
};
