-- 1 while the tenant leaves for another installation, 2 while it arrives from one. Otherwise 0. Every change of a request
-- locks the row of its tenant and fails if it is frozen.
alter table data_keys add column frozen integer not null default 0;
