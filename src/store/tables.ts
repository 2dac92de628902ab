/** What tells the rows of a table apart, of all that a tenant has; the rest goes with what it belongs to. */
export const primaryKeys = {
  sessions: 'tenant_id, id',
  idempotency: 'tenant_id, caller_id, key_digest',
  tokens: 'tenant_id, seq',
  application_uses: 'tenant_id, application_id, permission, container',
  applications: 'tenant_id, id',
  data_keys: 'tenant_id',
};
