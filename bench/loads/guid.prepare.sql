-- A table whose primary key is a random UUID, as postgres_exporter#1028 has it; psql has "rows" as a variable.
create table guid (id uuid primary key, payload text not null);
insert into guid select gen_random_uuid(), repeat(md5(i::text), 2) from generate_series(1, :rows) i;
