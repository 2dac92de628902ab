create table tenants (
  id uuid primary key,
  name text not null,
  created_at bigint not null
);

create table applications (
  tenant_id uuid not null references tenants (id),
  id uuid not null,
  name text not null,
  name_folded text not null,
  type text not null check (type in ('private', 'public', 'management')),
  permissions text not null,
  rules text not null,
  created_by uuid,
  created_at bigint not null,
  modified_by uuid,
  modified_at bigint,
  expires_at bigint,
  primary key (tenant_id, id)
);
create index applications_by_expiry on applications (expires_at) where expires_at is not null;

create table application_keys (
  tenant_id uuid not null,
  application_id uuid not null,
  id uuid not null,
  digest bytea not null unique,
  ending text not null,
  created_at bigint not null,
  primary key (tenant_id, application_id, id),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);

-- A Session is authorized once: authorized_at is null before, and the nonce is spent after.
-- authorizer_digest is the key it was authorized with, if the Session may never do more than that key.
create table sessions (
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
  primary key (tenant_id, application_id, id),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);
create index sessions_by_expiry on sessions (expires_at);
