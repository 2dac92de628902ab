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

-- Finds tokens by metadata. digest is a hash of a name and a value.
create table token_metadata (
  tenant_id text not null,
  digest text not null,
  seq text not null,
  primary key (tenant_id, digest, seq),
  foreign key (tenant_id, seq) references tokens (tenant_id, seq) on delete cascade
) strict, without rowid;
create index token_metadata_by_token on token_metadata (tenant_id, seq);

-- Finds tokens by exact value. digest is an HMAC of a name and a value, under a key of the tenant. container is that of
-- the token, so that a search reads only the tokens that its caller can see.
create table token_search (
  tenant_id text not null,
  digest text not null,
  container text not null,
  seq text not null,
  primary key (tenant_id, digest, container, seq),
  foreign key (tenant_id, seq) references tokens (tenant_id, seq) on delete cascade
) strict, without rowid;
create index token_search_by_token on token_search (tenant_id, seq);

-- Audit entries that are not sealed yet. A request writes its entries here. tenant_id is the nil UUID for entries
-- without a tenant. id is a UUIDv7; entries are sealed in its order. entry is JSON. mac covers all columns.
create table audit_pending (
  tenant_id text not null,
  id text not null,
  at integer not null,
  format integer not null,
  mac blob not null,
  entry text not null,
  primary key (tenant_id, id)
) strict, without rowid;

-- For each term (a hash of an id, actor, container, operation, request or result) and segment, the entries with that
-- term: their offsets from the first entry, two bytes each.
create table audit_index (
  tenant_id text not null,
  term integer not null,
  number integer not null,
  offsets blob not null,
  primary key (tenant_id, term, number)
) strict, without rowid;
