-- The next migrations divide the log into partitions by month. The rows of earlier builds stay where they are and become
-- the partition 0. The constraint proves that they belong there, without a lock that stops readers or the sealing.
alter table audit_segments add column month "char" not null default '0';
alter table audit_segments add constraint audit_segments_m0_month check (month = '0') not valid;
