-- Sessions without a ceiling that an issued key authorized: the hash of its entry in trusted_issuers, which leaked_keys has
-- when the entry is removed. Null for other sessions.
alter table sessions add column unlimited_trust bytea;
