-- Lists check tokens without reading their data, so the large columns come last: SQLite has to follow every
-- overflow page of a large value to reach the columns behind it.
create table tokens_anew (
  tenant_id text not null references tenants (id),
  seq text not null,
  id text not null,
  type text not null,
  container text not null,
  container_folded text not null,
  version integer not null,
  created_by text,
  created_at integer not null,
  modified_by text,
  modified_at integer,
  expires_at integer,
  mask text,
  metadata text,
  masked blob,
  data blob not null,
  primary key (tenant_id, seq),
  unique (tenant_id, id)
) strict;
insert into tokens_anew (tenant_id, seq, id, type, container, container_folded, version, created_by, created_at,
  modified_by, modified_at, expires_at, mask, metadata, masked, data)
select tenant_id, seq, id, type, container, container_folded, version, created_by, created_at,
  modified_by, modified_at, expires_at, mask, metadata, masked, data from tokens;
create table token_metadata_anew (
  tenant_id text not null,
  name text not null,
  value text not null,
  seq text not null,
  primary key (tenant_id, name, value, seq),
  foreign key (tenant_id, seq) references tokens_anew (tenant_id, seq) on delete cascade
) strict;
insert into token_metadata_anew (tenant_id, name, value, seq)
select tenant_id, name, value, seq from token_metadata;
drop table token_metadata;
drop table tokens;
alter table tokens_anew rename to tokens;
alter table token_metadata_anew rename to token_metadata;
create index tokens_by_expiry on tokens (expires_at) where expires_at is not null;
create index token_metadata_by_token on token_metadata (tenant_id, seq);
drop index token_containers_by_id;
alter table token_containers drop column id;
create trigger token_containers_go after delete on tokens begin
  delete from token_containers
  where tenant_id = old.tenant_id and own in (0, 1) and seq = old.seq and container in (
    with recursive around (container) as (
      select old.container_folded
      union all
      select rtrim(rtrim(container, '/'), replace(container, '/', '')) from around where container <> '/'
    )
    select container from around
  );
end;
