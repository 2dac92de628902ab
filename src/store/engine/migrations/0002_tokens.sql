-- A data key per tenant, sealed by the master key that master_id names.
create table data_keys (
  tenant_id uuid primary key references tenants (id),
  sealed bytea not null,
  master_id text not null
);

-- The fingerprint of the master key that seals new data keys, with a sealed word to try a key on.
create table master_key (
  one integer primary key check (one = 1),
  id text not null,
  proof bytea not null
);

-- seq is made here and orders Tokens by age; id may be the caller's own. data and masked are sealed apart.
create table tokens (
  tenant_id uuid not null references tenants (id),
  seq uuid primary key,
  id text collate "C" not null,
  type text not null,
  container text not null,
  container_folded text not null,
  version bigint not null,
  data bytea not null,
  masked bytea,
  mask text,
  metadata text,
  created_by uuid,
  created_at bigint not null,
  modified_by uuid,
  modified_at bigint,
  expires_at bigint,
  unique (tenant_id, id),
  unique (tenant_id, seq)
);
create index tokens_by_expiry on tokens (expires_at) where expires_at is not null;

-- Every container that a Token lies in, its own and those above but for the root: who may see one container
-- reads its Tokens in order, or by id, without passing over those of others.
create table token_containers (
  tenant_id uuid not null,
  container text not null,
  own integer not null,
  seq uuid not null references tokens (seq) on delete cascade,
  id text collate "C" not null,
  primary key (tenant_id, container, own, seq)
);
create index token_containers_by_id on token_containers (tenant_id, container, own, id);
create index token_containers_by_token on token_containers (seq);

create table token_metadata (
  tenant_id uuid not null,
  name text not null,
  value text not null,
  seq uuid not null references tokens (seq) on delete cascade,
  primary key (tenant_id, name, value, seq)
);
create index token_metadata_by_token on token_metadata (seq);
