alter table audit_index add column month "char" not null default '0';
alter table audit_index add constraint audit_index_m0_month check (month = '0') not valid;
