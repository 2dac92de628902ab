-- Keys from POST /oauth/token: the issuer and the subject of the JWT, and the hash of the entry in trusted_issuers. All
-- are null for other keys. jkt is the thumbprint of the key that a bound key needs for every request; null if it is not
-- bound.
alter table application_keys add column issuer text;
alter table application_keys add column subject text;
alter table application_keys add column trust text;
alter table application_keys add column jkt text;
