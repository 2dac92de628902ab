-- A tenant that moves to another installation. Between moving_at and the end of the move, requests with its keys get
-- 503. After moved_at they get 421: the row remains when the tenant is deleted here. These are the only changes of a row.
alter table tenant_tags add column moving_at bigint;
alter table tenant_tags add column moved_at bigint;
