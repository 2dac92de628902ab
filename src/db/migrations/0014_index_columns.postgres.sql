-- In a new database, the columns of audit_index get an order without padding, which takes 8 bytes less per row. A table
-- with rows stays as it is: to rewrite it would take long.
lock table audit_index in access exclusive mode;
do $$ begin if not exists (select 1 from audit_index) then
  alter table audit_index
    drop column term,
    drop column offsets,
    add column term integer not null,
    add column offsets bytea not null;
end if; end $$;
-- In a Citus cluster, no other change can be in the same statement.
do $$ begin if not exists (select 1 from pg_index where indrelid = 'audit_index'::regclass and indisprimary) then
  alter table audit_index add primary key (tenant_id, term, number);
end if; end $$;
