-- JSON: the issuers whose JWTs can be exchanged for a key. Null if there are none.
alter table applications add column trusted_issuers text;
