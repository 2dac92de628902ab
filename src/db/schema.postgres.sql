-- Finds the tokens of a container. Each token has a row for its own container (own = 1) and one for each container
-- above it (own = 0), except the root.
create table token_containers (
  tenant_id uuid not null,
  container text not null,
  own integer not null,
  seq uuid not null,
  primary key (tenant_id, container, own, seq)
);
create index token_containers_by_token on token_containers (tenant_id, seq);

-- Finds tokens by metadata. digest is a hash of a name and a value.
create table token_metadata (
  tenant_id uuid not null,
  digest text collate "C" not null,
  seq uuid not null,
  primary key (tenant_id, digest, seq)
);
create index token_metadata_by_token on token_metadata (tenant_id, seq);

-- Finds tokens by exact value. digest is an HMAC of a name and a value, under a key of the tenant. container is that of
-- the token, so that a search reads only the tokens that its caller can see.
create table token_search (
  tenant_id uuid not null,
  digest text collate "C" not null,
  container text collate "C" not null,
  seq uuid not null,
  primary key (tenant_id, digest, container, seq)
);
create index token_search_by_token on token_search (tenant_id, seq);

-- These rows have no foreign key to their token, because PostgreSQL would look up the token for each of them. That
-- would take a third of the time to create a token. Rows are only written together with their token or while it is
-- locked. deleteTokenRows in src/store/token-index.ts deletes them.
alter table token_contents drop constraint token_contents_tenant_id_seq_fkey;

-- Transactions that create a token unless its value exists insert the same row here, and delete it again, so that they
-- wait for each other. SQLite runs them one after another.
create table search_locks (
  tenant_id uuid not null,
  digest text collate "C" not null,
  container text collate "C" not null,
  primary key (tenant_id, digest, container)
);

-- Without statistics about tenants, PostgreSQL assumes that a tenant has 0.5 % of the rows. With statistics that are out
-- of date, it would assume that a growing tenant has few rows, and would read all of them instead of the index of the
-- digest.
alter table sessions alter column tenant_id set statistics 0;
alter table application_keys alter column tenant_id set statistics 0;

-- Audit entries that are not sealed yet. A request writes its entries here. tenant_id is the nil UUID for entries
-- without a tenant. id is a UUIDv7; entries are sealed in its order. entry is JSON. mac covers all columns. The
-- table is emptied every few seconds. Without these settings, it would grow between two runs of autovacuum.
create table audit_pending (
  tenant_id uuid not null,
  id uuid not null,
  at bigint not null,
  format smallint not null,
  mac bytea not null,
  entry text not null,
  primary key (tenant_id, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- For each term (a hash of an id, actor, container, operation, request or result) and segment, the entries with that
-- term: their offsets from the first entry, two bytes each. In this order, the columns need no padding.
create table audit_index (
  tenant_id uuid not null,
  number bigint not null,
  term integer not null,
  offsets bytea not null,
  primary key (tenant_id, term, number)
);

-- Detects a server that is behind. Every node increases beat once a second. See src/domain/database-position.ts.
create table heartbeat (
  one integer primary key check (one = 1),
  installation uuid not null,
  era integer not null,
  beat bigint not null,
  -- The server and the database in which nodes increase beat. A restored copy has the value of the original.
  home text
);
insert into heartbeat values (1, gen_random_uuid(), 0, 0);

-- PostgreSQL caches one plan of a statement for all tenants. For the average tenant, it would choose one that reads and
-- sorts all rows of a tenant. If its statistics know only one tenant, it assumes the largest one, or plans for each
-- tenant. In a Citus cluster, src/db/citus.ts sets this on the shards. A later migration sets it on the tables that it
-- creates.
do $$
declare
  found record;
begin
  for found in
    select c.oid::regclass as name from pg_index i join pg_class c on c.oid = i.indrelid
    join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
    where i.indisprimary and i.indnkeyatts > 1 and a.attname = 'tenant_id'
      and c.relnamespace = cast(format('%I', current_schema()) as regnamespace)
  loop
    execute format('alter table %s alter column tenant_id set (n_distinct = 1)', found.name);
  end loop;
end $$;
