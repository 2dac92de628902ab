create index applications_by_tenant_and_expiry on applications (tenant_id, expires_at) where expires_at is not null;
