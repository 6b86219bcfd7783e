\set id random(1, :rows)
\set percent random(1, 100)
\if :percent <= 70
select info, crt_time from test where id = :id;
\else
insert into test (id, info, crt_time) values (:id, md5(random()::text), now()) on conflict on constraint test_pkey do update set info = excluded.info, crt_time = excluded.crt_time;
\endif
