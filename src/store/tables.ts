/** Primary keys of the tables with a `tenant_id`. Rows of all other tables are deleted by cascade. */
export const primaryKeys = {
  sessions: 'tenant_id, id',
  idempotency: 'tenant_id, caller_id, key_digest',
  tokens: 'tenant_id, seq',
  application_uses: 'tenant_id, application_id, permission, container',
  applications: 'tenant_id, id',
  data_keys: 'tenant_id',
};
