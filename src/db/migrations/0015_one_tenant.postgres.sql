-- PostgreSQL caches one plan of a statement for all tenants. For the average tenant, it would choose one that reads and
-- sorts all rows of a tenant. If its statistics know only one tenant, it assumes the largest one, or plans for each
-- tenant. The lock lets requests read and change rows. Tables without rows are not analyzed: PostgreSQL would then plan
-- for empty tables. In a Citus cluster, a distributed table cannot be altered; src/db/citus.ts alters its
-- shards.
do $$
declare
  found record;
begin
  for found in
    select c.oid::regclass as name, c.reltuples > 0 as has_rows
    from pg_index i join pg_class c on c.oid = i.indrelid
    join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
    where i.indisprimary and i.indnkeyatts > 1 and a.attname = 'tenant_id'
      and c.relnamespace = cast(format('%I', current_schema()) as regnamespace)
  loop
    execute format('alter table %s alter column tenant_id set (n_distinct = 1)', found.name);
    if found.has_rows then
      execute format('analyze %s (tenant_id)', found.name);
    end if;
  end loop;
exception when feature_not_supported then
  null;
end $$;
