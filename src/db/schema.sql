create table tenants (
  id uuid primary key,
  -- Part of every key and nonce of the tenant, which names the tenant of a lookup. Never changes.
  tag text collate "C" not null,
  name text not null,
  created_at bigint not null,
  disabled_at bigint,
  -- Set when deletion starts. A deletion cannot be undone.
  deleted_at bigint,
  -- Milliseconds between the creation of a key and its latest possible expiry. Null if unlimited.
  max_lifetime bigint,
  -- JSON: the purposes that requests may state. Null if every purpose is accepted.
  purposes text
);

-- Finds the tenant of a tag. Every server of a cluster has a copy of this table, so a row only changes while its tenant
-- moves to another installation. Between moving_at and the end of the move, requests with its keys get 503. After
-- moved_at they get 421: the row remains when the tenant is deleted here.
create table tenant_tags (
  tag text collate "C" primary key,
  id uuid not null,
  moving_at bigint,
  moved_at bigint
);

create table applications (
  tenant_id uuid not null references tenants (id),
  id uuid not null,
  name text not null,
  name_folded text not null,
  type text not null check (type in ('private', 'public', 'management')),
  -- 1 if its sessions must be bound to a key of the browser.
  require_bound_sessions integer not null default 0,
  created_by uuid,
  created_at bigint not null,
  modified_by uuid,
  modified_at bigint,
  expires_at bigint,
  -- Null if it is not in quarantine.
  quarantined_at bigint,
  last_used_at bigint,
  -- When the first of its rules ends, and the last of those that end. Rules that have ended stay until the next update.
  -- Null if no rule ends.
  first_rule_end bigint,
  last_rule_end bigint,
  -- These columns are JSON. They can be large, and SQLite must read a large value to reach the columns after it.
  -- Null if it has none.
  labels text,
  -- Null if pages of every origin may use the keys.
  allowed_origins text,
  -- Null if the keys may be used from every address.
  allowed_networks text,
  permissions text not null,
  rules text not null,
  -- The issuers whose JWTs can be exchanged for a key. Null without any.
  trusted_issuers text,
  primary key (tenant_id, id)
);
create index applications_by_name on applications (tenant_id, name);
create index applications_by_expiry on applications (expires_at) where expires_at is not null;
create index applications_by_tenant_and_expiry on applications (tenant_id, expires_at) where expires_at is not null;
create index applications_by_rule_end on applications (tenant_id, last_rule_end) where last_rule_end is not null;

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

-- issuer, subject, trust: of keys from POST /oauth/token, the issuer and the subject of the JWT, and the hash of the entry
-- in trusted_issuers. jkt: the thumbprint of the key that a bound key needs for every request. person, sid, ends_at: of
-- sessions of people in the console, which are keys, too, and have an issuer and a subject. person is JSON with the name
-- and email. sid is the session at the provider, if it has named one, by which back-channel logout finds it. expires_at is
-- never set to a later time than ends_at. All are null for other keys.
create table application_keys (
  tenant_id uuid not null,
  application_id uuid not null,
  id uuid not null,
  digest bytea not null,
  ending text not null,
  created_by uuid,
  created_at bigint not null,
  last_used_at bigint,
  expires_at bigint,
  issuer text,
  subject text,
  trust text,
  jkt text,
  -- JSON: the last days with requests of the key, and their number. Days are counted from 1970, in UTC. Null before the
  -- first request.
  daily_requests text,
  person text,
  sid text,
  ends_at bigint,
  primary key (tenant_id, application_id, id),
  unique (tenant_id, digest),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);
create index application_keys_by_ending on application_keys (tenant_id, ending, application_id);
create index application_keys_by_expiry on application_keys (expires_at) where expires_at is not null;
create index application_keys_by_person on application_keys (issuer, subject) where person is not null;
create index application_keys_by_sid on application_keys (issuer, sid) where sid is not null;

-- When the grants of each application were last used, by permission and container.
create table application_uses (
  tenant_id uuid not null,
  application_id uuid not null,
  permission text collate "C" not null,
  container text collate "C" not null,
  last_used_at bigint not null,
  primary key (tenant_id, application_id, permission, container),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);

-- The number of tokens that each application has stored, and their bytes. On PostgreSQL an application has several rows
-- (shards), so that concurrent transactions rarely wait for each other. Its total is the sum of its rows.
create table application_storage (
  tenant_id uuid not null,
  application_id uuid not null,
  shard integer not null,
  tokens bigint not null,
  bytes bigint not null,
  primary key (tenant_id, application_id, shard),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);

-- A session is pending while authorized_at is null. Authorizing it spends the nonce. authorizer_digest is the digest of
-- the key that is the session's ceiling. If the session has no ceiling, authorizer_digest is null, and unlimited_by is
-- the digest of the key that authorized it. jkt is the thumbprint (RFC 7638) of the key that a bound session needs for
-- every request; null if the session is not bound. subject says who the session is for, if its authorizer did.
-- subject_since is ended_at of the subject in ended_subjects when the session was authorized, or 0. unlimited_trust: of a
-- session without a ceiling that an issued key authorized, the hash of its entry in trusted_issuers, which leaked_keys has
-- when the entry is removed.
--
-- A delegation is a row whose application authorized it itself: application_id = authorized_by. It has a random
-- nonce_digest, which no nonce has. max_uses is the number of its requests that can succeed, and uses counts them; both are
-- null if they are not limited. The last use sets expires_at.
create table sessions (
  tenant_id uuid not null,
  application_id uuid not null,
  id uuid not null,
  key_digest bytea not null,
  nonce_digest bytea not null,
  created_at bigint not null,
  expires_at bigint not null,
  authorized_at bigint,
  authorized_by uuid,
  authorizer_digest bytea,
  unlimited_by bytea,
  jkt text,
  subject text collate "C",
  subject_since bigint not null default 0,
  -- Null if it is not in quarantine.
  quarantined_at bigint,
  -- Large, like in applications. Lookups by key read the columns after them only if they read these.
  permissions text not null,
  rules text not null,
  max_uses integer,
  uses integer,
  unlimited_trust bytea,
  primary key (tenant_id, id),
  unique (tenant_id, key_digest),
  unique (tenant_id, nonce_digest),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);
create index sessions_by_expiry on sessions (expires_at);
create index sessions_by_subject on sessions (tenant_id, subject, id) where subject is not null;
-- Counts the sessions with long rules that an application has authorized.
create index sessions_with_long_rules on sessions (tenant_id, authorized_by, expires_at)
  where octet_length(rules) > 4096;
create index sessions_by_application on sessions (tenant_id, application_id, authorized_at, expires_at);

-- Keys that were revoked because they leaked, and entries of trusted_issuers that were removed. Sessions with such a value
-- in unlimited_by or unlimited_trust are invalid. After expires_at, no such session remains.
create table leaked_keys (
  tenant_id uuid not null references tenants (id),
  digest bytea not null,
  expires_at bigint not null,
  primary key (tenant_id, digest)
);
create index leaked_keys_by_expiry on leaked_keys (expires_at);

-- Subjects whose sessions were all ended. Sessions with a lower subject_since are invalid. ended_at is the time, or more
-- if that would not be later than before. After expires_at, no such session remains.
create table ended_subjects (
  tenant_id uuid not null references tenants (id),
  subject text collate "C" not null,
  ended_at bigint not null,
  expires_at bigint not null,
  primary key (tenant_id, subject)
);
create index ended_subjects_by_expiry on ended_subjects (expires_at);

-- The id of the current master key. proof is a known text that this key has encrypted, to check a configured key.
create table master_key (
  one integer primary key check (one = 1),
  id text not null,
  proof bytea not null
);

-- One data key per tenant, wrapped by the master key `master_id`. The search key is derived from it and from
-- search_version. reindexing is 1 while tokens are indexed with an older version. frozen is 1 while the tenant leaves for
-- another installation, 2 while it arrives from one, otherwise 0. Every change of a request locks this row and fails if it
-- is frozen.
create table data_keys (
  tenant_id uuid primary key references tenants (id),
  wrapped bytea not null,
  master_id text not null,
  search_version integer not null default 1,
  reindexing integer not null default 0,
  frozen integer not null default 0
);
create index data_keys_by_reindexing on data_keys (reindexing) where reindexing = 1;

-- seq is generated by Sallyport and orders tokens by age; id may be chosen by the caller. content_version increases
-- with new data or a new mask. data_bytes and masked_bytes are the sizes of the ciphertexts in token_contents. bytes is
-- what the token counts to the storage of its creator. search has the search templates as JSON; search_version is that
-- of the key of its rows in token_search. written_by is the kind of key and the application that last wrote data and
-- search. max_uses is the number of requests to destinations that may use the token; null if it is not limited. uses
-- counts them. The last use deletes the row.
create table tokens (
  tenant_id uuid not null references tenants (id),
  seq uuid not null,
  id text collate "C" not null,
  type text not null,
  container text not null,
  container_folded text not null,
  content_version integer not null,
  data_bytes integer not null,
  masked_bytes integer not null,
  bytes integer not null default 0,
  created_by uuid,
  created_at bigint not null,
  modified_by uuid,
  modified_at bigint,
  expires_at bigint,
  search_version integer,
  mask text,
  search text,
  written_by text,
  metadata text,
  max_uses integer,
  uses integer not null default 0,
  primary key (tenant_id, seq),
  unique (tenant_id, id)
);
create index tokens_by_expiry on tokens (expires_at) where expires_at is not null;
create index tokens_by_tenant_and_expiry on tokens (tenant_id, expires_at) where expires_at is not null;
create index tokens_by_type on tokens (tenant_id, type, seq);
create index tokens_by_search_version on tokens (tenant_id, search_version) where search_version is not null;

-- The ciphertexts of tokens. They are in a separate table, so that other changes of a token do not rewrite them. The
-- encryption binds them to the token and its content_version. masked is null without a mask. It comes before data,
-- because SQLite must follow every overflow page of a large value to reach the columns after it.
create table token_contents (
  tenant_id uuid not null,
  seq uuid not null,
  masked bytea,
  data bytea not null,
  primary key (tenant_id, seq),
  foreign key (tenant_id, seq) references tokens (tenant_id, seq) on delete cascade
);

-- Sealed audit entries, up to 1024 per row; see src/audit/log/segment.ts. Rows are never updated. number counts the
-- segments of a chain without gaps. first_seq and last_seq are the positions of the first and last entry. earliest_at and
-- latest_at are the range of their times. sealed_at is the latest time in all entries and their ids up to this segment. No
-- entry is older than the sealed_at before it by more than max_delay milliseconds. previous is the hash of the segment
-- before. system_number and system_hash are the end of the system chain; null in the system chain. content_hash covers
-- the MACs of the entries, index_hash the rows in audit_index. The signature covers all columns except entries.
create table audit_segments (
  tenant_id uuid not null,
  number bigint not null,
  format smallint not null,
  first_seq bigint not null,
  last_seq bigint not null,
  earliest_at bigint not null,
  latest_at bigint not null,
  sealed_at bigint not null,
  max_delay bigint not null,
  successes integer not null,
  denials integer not null,
  failures integer not null,
  previous bytea not null,
  system_number bigint,
  system_hash bytea,
  key_id text not null,
  content_hash bytea not null,
  index_hash bytea not null,
  signature bytea not null,
  entries bytea not null,
  primary key (tenant_id, number)
);
create index audit_segments_by_time on audit_segments (tenant_id, sealed_at, number);

-- The end of each audit chain: the last segment, with its number, last position and hash. Sealing locks this row.
-- sealed_at and max_delay repeat the values of the last segment. Segments up to base_number were deleted after they
-- were archived or delivered. recorded_number is the last segment that an `audit.heads` entry of the system chain has
-- recorded, at recorded_at; recorded_mac is a MAC of tenant_id, recorded_number and recorded_at.
create table audit_chains (
  tenant_id uuid primary key,
  number bigint not null,
  seq bigint not null,
  hash bytea not null,
  sealed_at bigint not null,
  max_delay bigint not null,
  base_number bigint not null,
  base_seq bigint not null,
  base_hash bytea not null,
  recorded_number bigint not null,
  recorded_at bigint not null,
  recorded_mac bytea
);

-- The keys of the audit chain, wrapped by the master key `master_id`.
create table audit_key (
  one integer primary key check (one = 1),
  wrapped bytea not null,
  master_id text not null
);

-- Encrypted responses, replayed when a request is repeated with the same idempotency key. bytes is the size that counts
-- to the storage of the application. The sum is in application_storage, in the shards from 16 on. The other shards count
-- tokens.
create table idempotency (
  tenant_id uuid not null references tenants (id),
  caller_id uuid not null,
  key_digest bytea not null,
  request_digest bytea not null,
  reply bytea not null,
  expires_at bigint not null,
  application_id uuid not null,
  bytes integer not null,
  primary key (tenant_id, caller_id, key_digest)
);
create index idempotency_by_expiry on idempotency (expires_at);

-- The values of audited settings at the last start. A change of one is written to the audit log.
create table settings (
  name text primary key,
  value text not null
);

-- Sinks that receive the audit log. The node `holder` delivers until lease_until. After a failure, no node attempts
-- again before retry_at. failures counts the failed attempts since the last delivery.
create table audit_sinks (
  name text primary key,
  holder uuid,
  lease_until bigint not null,
  retry_at bigint not null,
  failures integer not null,
  delivered_at bigint,
  failed_at bigint,
  error text
);

-- Segments of a chain up to `number` were delivered to the sink; seq is the last position of that segment. If the
-- receiver has rejected entries, complete_number is the last segment before the first rejected one. skipped counts the
-- entries that were deleted before they were delivered. mac is a MAC of all columns except attempted_at.
create table audit_deliveries (
  tenant_id uuid not null,
  sink text not null,
  number bigint not null,
  seq bigint not null,
  complete_number bigint,
  skipped bigint not null default 0,
  mac bytea,
  attempted_at bigint not null,
  primary key (tenant_id, sink)
);

-- Which `key.expiring` audit entries were written about applications: how many days before which expiry time.
create table expiry_notices (
  tenant_id uuid not null,
  application_id uuid not null,
  expires_at bigint not null,
  days integer not null,
  primary key (tenant_id, application_id, expires_at, days),
  foreign key (tenant_id, application_id) references applications (tenant_id, id) on delete cascade
);

-- Like expiry_notices, for keys that expire before their application.
create table key_expiry_notices (
  tenant_id uuid not null,
  application_id uuid not null,
  key_id uuid not null,
  expires_at bigint not null,
  days integer not null,
  primary key (tenant_id, application_id, key_id, expires_at, days),
  foreign key (tenant_id, application_id, key_id) references application_keys (tenant_id, application_id, id)
    on delete cascade
);

-- The history of the table settings. Each value applies from the time `at` on.
create table setting_changes (
  name text not null,
  at bigint not null,
  value text not null,
  primary key (name, at)
);

-- Nodes that use the database. Each node renews its row: seen_at is the time of the last renewal, and clock is the same
-- time by the node's own clock.
create table nodes (
  id uuid primary key,
  name text not null,
  version text not null,
  -- Where other nodes reach it. Null if it does not listen.
  url text,
  -- JSON: ids of the master keys that the node can use.
  master_keys text not null,
  clock bigint not null,
  seen_at bigint not null
);

-- Authenticated requests by tenant and interval of five minutes. started_at is the start of the interval.
create table request_counts (
  tenant_id uuid not null references tenants (id),
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

-- Services that may receive plaintext. requests, header_names: JSON. certificate: the client certificate in PEM, without
-- its private key. stops: how many rows of destination_stops it has. secrets: encrypted JSON with the values of the headers and the private key. Rows are deleted immediately:
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
  max_in_flight integer not null,
  ignored_headers text not null,
  stops integer not null default 0,
  secrets bytea not null,
  created_by uuid,
  created_at bigint not null,
  modified_by uuid,
  modified_at bigint,
  primary key (tenant_id, id),
  unique (tenant_id, name)
);

-- Tokens that the destination has echoed to the application, which may not use them there until somebody allows it again.
create table destination_stops (
  tenant_id uuid not null,
  destination_id uuid not null,
  application_id uuid not null,
  token_id text not null,
  stopped_at bigint not null,
  primary key (tenant_id, destination_id, application_id, token_id),
  foreign key (tenant_id, destination_id) references destinations (tenant_id, id) on delete cascade
);

-- JWTs that were exchanged and work once: hashes of the issuer and the jti. After expires_at, the JWT has expired.
create table used_jwts (
  tenant_id uuid not null references tenants (id),
  digest bytea not null,
  expires_at bigint not null,
  primary key (tenant_id, digest)
);
create index used_jwts_by_expiry on used_jwts (expires_at);
