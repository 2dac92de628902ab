alter table token_containers drop column id;
