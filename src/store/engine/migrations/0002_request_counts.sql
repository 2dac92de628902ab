-- Authenticated requests by tenant and interval of five minutes. started_at is the start of the interval.
create table request_counts (
  -- Deletes the rows also if a program of the previous version, which does not know this table, deletes the tenant.
  tenant_id uuid not null references tenants (id) on delete cascade,
  started_at bigint not null,
  -- Those with the status 403.
  denied integer not null,
  -- All requests, by duration. A column does not include the faster requests of the columns before it.
  within_250us integer not null,
  within_500us integer not null,
  within_1ms integer not null,
  within_2500us integer not null,
  within_5ms integer not null,
  within_10ms integer not null,
  within_25ms integer not null,
  within_50ms integer not null,
  within_100ms integer not null,
  within_250ms integer not null,
  within_500ms integer not null,
  within_1s integer not null,
  within_2500ms integer not null,
  within_5s integer not null,
  within_10s integer not null,
  slower integer not null,
  primary key (tenant_id, started_at)
);
create index request_counts_by_time on request_counts (started_at);
