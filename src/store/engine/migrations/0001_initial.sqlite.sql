-- Finds the tokens of a container. Each token has a row for its own container (own = 1) and one for each container
-- above it (own = 0), except the root. The table has no rowid, no foreign key and no index by token, so each row is
-- written once instead of three times. The trigger derives the rows of a deleted token from its container.
create table token_containers (
  tenant_id text not null,
  container text not null,
  own integer not null,
  seq text not null,
  primary key (tenant_id, container, own, seq)
) strict, without rowid;
create trigger delete_token_containers after delete on tokens begin
  delete from token_containers
  where tenant_id = old.tenant_id and own in (0, 1) and seq = old.seq and container in (
    with recursive above (container) as (
      select old.container_folded
      union all
      select rtrim(rtrim(container, '/'), replace(container, '/', '')) from above where container <> '/'
    )
    select container from above
  );
end;

-- Audit entries that are not chained yet, in order of arrival. A request writes its entries here. tenant_id is the nil
-- UUID for entries without a tenant. entry is JSON. mac covers all columns except id; format says how.
create table audit_pending (
  id integer primary key,
  at integer not null,
  tenant_id text not null,
  format integer not null,
  mac blob,
  entry text not null
) strict;
create index audit_pending_by_tenant on audit_pending (tenant_id, id);

-- Chained audit entries. seq is the position in the chain. entry is packed JSON, see src/store/audit/pack.ts. request
-- is a hash of the entry's request_id. Rows are never updated, except `request` by `audit reindex`.
create table audit (
  seq integer not null,
  at integer not null,
  chain integer not null,
  request integer,
  format integer not null,
  mac blob,
  entry blob not null,
  primary key (chain, seq)
) strict, without rowid;
create index audit_by_request on audit (chain, request, seq) where request is not null;

-- For each term (a hash of an id, actor, container, operation or result) and each block of 1024 entries, the positions
-- of the entries with that term: seq - 1024 * block, two bytes each.
create table audit_index (
  chain integer not null,
  term integer not null,
  block integer not null,
  offsets blob not null,
  primary key (chain, term, block)
) strict, without rowid;

-- Signed positions of a chain: its last entry and every 256th. at is the latest time of the entries up to seq.
-- system_seq and system_hash are the end of the system chain at the time of signing. The signature covers them too.
-- They are null in the system chain.
create table audit_checkpoints (
  seq integer not null,
  at integer not null,
  chain integer not null,
  format integer not null,
  hash blob not null,
  signature blob not null,
  system_seq integer,
  system_hash blob,
  primary key (chain, seq)
) strict, without rowid;
create index audit_checkpoints_by_time on audit_checkpoints (chain, at, seq);
