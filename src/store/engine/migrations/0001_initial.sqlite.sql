-- The container of each token (own = 1) and all containers above it but the root (own = 0), for lists of one container.
-- Without a rowid, a foreign key or an index by token, a row is written once instead of three times. The trigger
-- derives the rows of a deleted token from its container.
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
