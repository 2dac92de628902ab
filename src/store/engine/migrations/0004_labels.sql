-- The labels of an application as JSON. Null if it has none.
alter table applications add column labels text;

-- Finds applications by label. The rows are removed with their application.
create table application_labels (
  tenant_id uuid not null,
  name text not null,
  value text not null,
  application_id uuid not null,
  primary key (tenant_id, name, value, application_id),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);
create index application_labels_by_application on application_labels (tenant_id, application_id);
