create index tokens_by_type on tokens (tenant_id, type, seq);
