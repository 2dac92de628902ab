-- Services that may receive plaintext. requests, header_names: JSON. certificate: the client certificate in PEM, without
-- its private key. secrets: encrypted JSON with the values of the headers and the private key. Rows are deleted at once:
-- rules name the id, which is never used again.
create table destinations (
  tenant_id uuid not null references tenants (id),
  id uuid not null,
  name text not null,
  origin text not null,
  requests text not null,
  header_names text not null,
  certificate text,
  ca text,
  timeout integer not null,
  secrets bytea not null,
  created_by uuid,
  created_at bigint not null,
  modified_by uuid,
  modified_at bigint,
  primary key (tenant_id, id),
  unique (tenant_id, name)
);
