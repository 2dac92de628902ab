-- Back-channel logout finds the sessions of people in the console by their session at the provider.
create index application_keys_by_sid on application_keys (issuer, sid) where sid is not null;
