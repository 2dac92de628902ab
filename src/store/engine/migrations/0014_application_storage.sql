-- How many tokens of an application are stored, and how large they are, each rounded up to 4 KiB. An application has several rows on
-- PostgreSQL, so that transactions rarely wait for each other; their sum counts.
create table application_storage (
  tenant_id uuid not null,
  application_id uuid not null,
  shard integer not null,
  tokens bigint not null,
  bytes bigint not null,
  primary key (tenant_id, application_id, shard),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);
insert into application_storage (tenant_id, application_id, shard, tokens, bytes)
select t.tenant_id, t.created_by, 0, count(*), sum((octet_length(t.data) + coalesce(octet_length(t.masked), 0)
  + coalesce(octet_length(t.mask), 0) + coalesce(octet_length(t.metadata), 0) + 4095) / 4096 * 4096)
from tokens t join applications a on a.tenant_id = t.tenant_id and a.id = t.created_by
group by t.tenant_id, t.created_by;
