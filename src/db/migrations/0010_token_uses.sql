-- max_uses is the number of requests to destinations that may use the token; null if it is not limited. uses counts
-- them. The last use deletes the row.
alter table tokens add column max_uses integer;
alter table tokens add column uses integer not null default 0;
