-- Sessions are listed by tenant, newest first. What belongs to one Application is found by the second index,
-- which also counts those that nobody has authorized.
-- No Session may come between the copy and the end of the old table.
lock table applications in share row exclusive mode;
lock table sessions in access exclusive mode;
create table sessions_anew (
  tenant_id uuid not null,
  application_id uuid not null,
  id uuid not null,
  key_digest bytea not null unique,
  nonce_digest bytea not null unique,
  permissions text not null,
  rules text not null,
  created_at bigint not null,
  expires_at bigint not null,
  authorized_at bigint,
  authorized_by uuid,
  authorizer_digest bytea,
  primary key (tenant_id, id),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);
insert into sessions_anew (tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules,
  created_at, expires_at, authorized_at, authorized_by, authorizer_digest)
select tenant_id, application_id, id, key_digest, nonce_digest, permissions, rules,
  created_at, expires_at, authorized_at, authorized_by, authorizer_digest from sessions;
drop table sessions;
alter table sessions_anew rename to sessions;
create index sessions_by_expiry on sessions (expires_at);
create index sessions_by_application on sessions (tenant_id, application_id, authorized_at, expires_at);
