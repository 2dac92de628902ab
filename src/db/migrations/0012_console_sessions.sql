-- Sessions of people in the console are keys, too. person: JSON with the name and email of the person, whose issuer and
-- subject are in the columns of issued keys. sid: the session at the provider, if it has named one. ends_at: expires_at is
-- never set to a later time. All are null for other keys.
alter table application_keys add column person text;
alter table application_keys add column sid text;
alter table application_keys add column ends_at bigint;
create index application_keys_by_person on application_keys (issuer, subject) where person is not null;
