-- A delegation is a row of sessions whose application authorized it itself: application_id = authorized_by. It has a
-- random nonce_digest, which no nonce has. max_uses is the number of its requests that can succeed, and uses counts
-- them; both are null if they are not limited. The last use sets expires_at. Lookups by key read these columns after
-- the large ones, which they read anyway.
alter table sessions add column max_uses integer;
alter table sessions add column uses integer;
