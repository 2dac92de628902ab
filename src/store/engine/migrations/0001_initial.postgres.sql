-- The container of each token (own = 1) and all containers above it but the root (own = 0), for lists of one container.
create table token_containers (
  tenant_id uuid not null,
  container text not null,
  own integer not null,
  seq uuid not null,
  primary key (tenant_id, container, own, seq),
  foreign key (tenant_id, seq) references tokens (tenant_id, seq) on delete cascade
);
create index token_containers_by_token on token_containers (tenant_id, seq);

-- Chained audit entries. seq is the position in the chain. entry is packed JSON, see src/store/audit/pack.ts. request is
-- a hash of its request_id. Rows are never updated.
create table audit (
  seq bigint not null,
  at bigint not null,
  chain integer not null,
  request integer,
  format smallint not null,
  mac bytea,
  entry bytea not null,
  primary key (chain, seq)
);
create index audit_by_request on audit (chain, request) where request is not null;

-- For each term (a hash of an id, actor, container, operation or result) and each block of 1024 entries, the positions
-- of the entries with that term: seq - 1024 * block, two bytes each.
create table audit_index (
  chain integer not null,
  term integer not null,
  block integer not null,
  offsets bytea not null,
  primary key (chain, term, block)
);

-- Signatures over a chain up to and including seq: that of its last entry, and of every 256th. at is the highest time of
-- an entry up to there.
create table audit_checkpoints (
  seq bigint not null,
  at bigint not null,
  chain integer not null,
  format smallint not null,
  hash bytea not null,
  signature bytea not null,
  primary key (chain, seq)
);
create index audit_checkpoints_by_time on audit_checkpoints (chain, at, seq);

-- The table is emptied every second. Without these settings it would grow between two runs of the autovacuum.
alter table audit_pending set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
