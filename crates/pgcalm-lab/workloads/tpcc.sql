-- In the manner of TPC-C's transactions: 47 % new orders, 45 % payments, 8 % that only read; no think time.
\set warehouses greatest(1, :rows / 100000)
\set items least(:rows, 100000)
\set customers greatest(10, :items / 30)
\set w random(1, :warehouses)
\set d random(1, 10)
\set c random(1, :customers)
\set percent random(1, 100)
\if :percent <= 47
-- New order: 5 to 15 lines. Rows of stock are locked in order, so that orders do not deadlock.
\set lines random(5, 15)
\set seed random(1, 1000000000)
begin;
update district set next_order = next_order + 1 where w_id = :w and d_id = :d returning next_order - 1 as o_id \gset
insert into orders values (:w, :d, :o_id, :c, :lines, now());
with picked as (
  select i_id from (select distinct 1 + abs(hashint8(:seed::bigint * 16 + n)::bigint) % :items as i_id from generate_series(1, :lines::int) n) p),
locked as materialized (
  select s.i_id from stock s where s.w_id = :w and s.i_id = any (array(select i_id::int from picked)) order by s.i_id for update),
taken as (
  update stock s set quantity = case when quantity > 10 then quantity - 5 else quantity + 86 end, ytd = ytd + 5, orders = orders + 1
  from locked l where s.w_id = :w and s.i_id = l.i_id returning s.i_id)
insert into order_line select :w, :d, :o_id, row_number() over (), i.i_id, 5, 5 * i.price from taken t join item i using (i_id);
end;
\elif :percent <= 92
-- Payment.
\set amount random(1, 5000)
begin;
update warehouse set ytd = ytd + :amount where w_id = :w;
update district set ytd = ytd + :amount where w_id = :w and d_id = :d;
update customer set balance = balance - :amount, payments = payments + 1 where w_id = :w and d_id = :d and c_id = :c;
insert into history values (:w, :d, :c, :amount, now());
end;
\elif :percent <= 96
-- Order status: the customer and the last order of the district.
begin;
select balance, payments from customer where w_id = :w and d_id = :d and c_id = :c;
select line, i_id, quantity, amount from order_line where w_id = :w and d_id = :d and o_id = (select next_order - 1 from district where w_id = :w and d_id = :d);
end;
\else
-- Stock level: what the last 20 orders of the district have left in short supply.
select count(distinct s.i_id) from district t
  join order_line l on l.w_id = t.w_id and l.d_id = t.d_id and l.o_id >= t.next_order - 20
  join stock s on s.w_id = t.w_id and s.i_id = l.i_id
  where t.w_id = :w and t.d_id = :d and s.quantity < 15;
\endif
