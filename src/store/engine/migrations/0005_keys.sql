alter table application_keys add column created_by uuid;
