alter table applications add column last_used_at bigint;
alter table application_keys add column last_used_at bigint;

-- Which permission was last used when in which container, by the grants of which Application.
create table application_uses (
  tenant_id uuid not null,
  application_id uuid not null,
  permission text collate "C" not null,
  container text collate "C" not null,
  last_used_at bigint not null,
  primary key (tenant_id, application_id, permission, container),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);
