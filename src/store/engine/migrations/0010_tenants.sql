-- disabled_at: since when its keys do not work. deleted_at: since when it is being deleted, with no way back.
alter table tenants add column disabled_at bigint;
alter table tenants add column deleted_at bigint;
