-- In the words of SQLite, and for it alone. Every index is a good part of what it costs to create a Token, so the
-- table is its own primary key, and has no index by which to find what goes with a Token: from the container of a
-- Token it follows which rows those are.
create table token_containers_anew (
  tenant_id text not null,
  container text not null,
  own integer not null,
  seq text not null,
  id text not null,
  primary key (tenant_id, container, own, seq)
) strict, without rowid;
insert into token_containers_anew (tenant_id, container, own, seq, id)
select tenant_id, container, own, seq, id from token_containers;
drop table token_containers;
alter table token_containers_anew rename to token_containers;
create index token_containers_by_id on token_containers (tenant_id, container, own, id);
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
