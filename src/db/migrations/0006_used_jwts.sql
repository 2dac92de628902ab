-- JWTs that were exchanged and work once: hashes of the issuer and the jti. After expires_at, the JWT has expired.
create table used_jwts (
  tenant_id uuid not null references tenants (id),
  digest bytea not null,
  expires_at bigint not null,
  primary key (tenant_id, digest)
);
create index used_jwts_by_expiry on used_jwts (expires_at);
