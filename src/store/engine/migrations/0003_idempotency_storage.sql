-- The application to whose storage the record counts, and the number of bytes. Null in records of version 0.2.0, which
-- do not count. Their sum is in application_storage, in the shards from 16 on. The other shards count tokens.
alter table idempotency add column application_id uuid;
alter table idempotency add column bytes integer;
