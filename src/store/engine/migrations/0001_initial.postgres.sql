-- The container of each token (own = 1) and all containers above it but the root (own = 0), for lists of one container.
create table token_containers (
  tenant_id uuid not null,
  container text not null,
  own integer not null,
  seq uuid not null,
  primary key (tenant_id, container, own, seq),
  foreign key (tenant_id, seq) references tokens (tenant_id, seq) on delete cascade
);
create index token_containers_by_token on token_containers (tenant_id, seq);
