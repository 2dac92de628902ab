-- A partition has the segments of one month in 14, see monthOf in src/audit/log/segment.ts. Retention empties partitions
-- with truncate, so no table is created or dropped later. Each partition has its own primary key, because that of the
-- whole table would contain the month. Numbers are unique by the row of the chain.
alter table audit_segments validate constraint audit_segments_m0_month;
do $$
declare
  is_distributed boolean := false;
  m text;
begin
  alter table audit_segments rename to audit_segments_m0;
  alter index audit_segments_by_time rename to audit_segments_m0_by_time;
  create table audit_segments (like audit_segments_m0 including defaults) partition by list (month);
  create index audit_segments_by_time on audit_segments (tenant_id, sealed_at, number);
  if to_regclass('pg_dist_partition') is not null then
    select count(*) > 0 into is_distributed from pg_dist_partition where logicalrelid = 'audit_segments_m0'::regclass;
  end if;
  if is_distributed then
    perform create_distributed_table('audit_segments', 'tenant_id', colocate_with => 'audit_segments_m0');
  end if;
  alter table audit_segments attach partition audit_segments_m0 for values in ('0');
  foreach m in array string_to_array('1,2,3,4,5,6,7,8,9,a,b,c,d,e', ',') loop
    execute format('create table audit_segments_m%s partition of audit_segments (primary key (tenant_id, number))
      for values in (%L)', m, m);
    -- See migration 0015.
    if not is_distributed then
      execute format('alter table audit_segments_m%s alter column tenant_id set (n_distinct = 1)', m);
    end if;
  end loop;
end $$;
