-- Made by the process that writes the row, so that a row which somebody else puts in is told apart.
alter table audit add column mac bytea;
