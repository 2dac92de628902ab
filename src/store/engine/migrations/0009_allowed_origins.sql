-- JSON text: the origins whose pages may use the keys of the Application; null if all may.
alter table applications add column allowed_origins text;
