-- JSON: the last days with requests of the key, and their number. Days are counted from 1970, in UTC. Null before the
-- first request.
alter table application_keys add column daily_requests text;
