-- One row for every change and every refusal, written with the change itself. entry is JSON; the columns beside
-- it are what lists filter by. seq and hash are filled in when the row is sealed into the chain.
create table audit (
  id uuid primary key,
  tenant_id uuid,
  at bigint not null,
  actor_id uuid,
  operation text not null,
  entity_id text,
  result text not null,
  entry text not null,
  seq bigint,
  hash bytea
);
create index audit_by_tenant on audit (tenant_id, id);
create unique index audit_by_seq on audit (seq) where seq is not null;
create index audit_unsealed on audit (id) where seq is null;

-- The chain up to and including seq, signed.
create table audit_checkpoints (
  seq bigint primary key,
  at bigint not null,
  hash bytea not null,
  signature bytea not null
);

-- The keys of the chain, sealed by the master key.
create table audit_key (
  one integer primary key check (one = 1),
  sealed bytea not null,
  master_id text not null
);

-- Answers that a repeated request gets again, sealed, for a day.
create table idempotency (
  tenant_id uuid not null references tenants (id),
  caller_id uuid not null,
  key_digest bytea not null,
  request_digest bytea not null,
  reply bytea not null,
  expires_at bigint not null,
  primary key (tenant_id, caller_id, key_digest)
);
create index idempotency_by_expiry on idempotency (expires_at);
