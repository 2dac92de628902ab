-- Sessions that nobody has authorized, to count those of one Application that are alive.
create index sessions_waiting on sessions (tenant_id, application_id, expires_at) where authorized_at is null;
