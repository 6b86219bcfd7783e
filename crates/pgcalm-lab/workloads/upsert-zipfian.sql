\set rank random_zipfian(1, :rows, 1.05)
\set id permute(:rank - 1, :rows, 20) + 1
insert into test (id, info, crt_time) values (:id, md5(random()::text), now()) on conflict on constraint test_pkey do update set info = excluded.info, crt_time = excluded.crt_time;
