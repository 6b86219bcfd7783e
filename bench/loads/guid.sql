-- An insert anywhere in the index: nearly each one changes another page of it, whose image goes into WAL once in a checkpoint.
insert into guid values (gen_random_uuid(), md5(random()::text) || md5(random()::text));
