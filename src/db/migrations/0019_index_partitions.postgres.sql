-- Like migration 0018.
alter table audit_index validate constraint audit_index_m0_month;
do $$
declare
  is_distributed boolean := false;
  m text;
begin
  alter table audit_index rename to audit_index_m0;
  -- In this order of the columns, the rows of most terms take no more bytes than without the month.
  create table audit_index (
    tenant_id uuid not null,
    number bigint not null,
    term integer not null,
    month "char" not null default '0',
    offsets bytea not null
  ) partition by list (month);
  if to_regclass('pg_dist_partition') is not null then
    select count(*) > 0 into is_distributed from pg_dist_partition where logicalrelid = 'audit_index_m0'::regclass;
  end if;
  if is_distributed then
    perform create_distributed_table('audit_index', 'tenant_id', colocate_with => 'audit_index_m0');
  end if;
  alter table audit_index attach partition audit_index_m0 for values in ('0');
  foreach m in array string_to_array('1,2,3,4,5,6,7,8,9,a,b,c,d,e', ',') loop
    execute format('create table audit_index_m%s partition of audit_index (primary key (tenant_id, term, number))
      for values in (%L)', m, m);
    if not is_distributed then
      execute format('alter table audit_index_m%s alter column tenant_id set (n_distinct = 1)', m);
    end if;
  end loop;
end $$;
