-- Tables in the manner of TPC-C, 100000 rows of stock to a warehouse; psql has "rows" as a variable.
-- The names and sizes are this lab's own; figures are no TPC-C results.
select greatest(1, :rows / 100000) as warehouses, least(:rows, 100000) as items \gset
select greatest(10, :items / 30) as customers \gset

begin;
create table warehouse (w_id int, tax numeric(4,4), ytd numeric(14,2), name text) with (fillfactor = 10);
create table district (w_id int, d_id int, tax numeric(4,4), ytd numeric(14,2), next_order int, name text) with (fillfactor = 10);
create table customer (w_id int, d_id int, c_id int, balance numeric(12,2), payments int, discount numeric(4,4), data text);
create table history (w_id int, d_id int, c_id int, amount numeric(6,2), at timestamptz);
create table item (i_id int, price numeric(5,2), name text);
create table stock (w_id int, i_id int, quantity int, ytd int, orders int, data text);
create table orders (w_id int, d_id int, o_id int, c_id int, lines int, at timestamptz);
create table order_line (w_id int, d_id int, o_id int, line int, i_id int, quantity int, amount numeric(8,2));

insert into warehouse select w, 0.1, 0, 'warehouse ' || w from generate_series(1, :warehouses) w;
insert into district select w, d, 0.1, 0, 1, 'district ' || d
  from generate_series(1, :warehouses) w, generate_series(1, 10) d;
\echo loading customers
insert into customer select w, d, c, 0, 0, 0.1, repeat(md5(random()::text), 12)
  from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, :customers) c;
insert into item select i, 1 + i % 100, 'item ' || md5(i::text) from generate_series(1, :items) i;
\echo loading stock
insert into stock select w, i, 50, 0, 0, repeat(md5(random()::text), 8)
  from generate_series(1, :warehouses) w, generate_series(1, :items) i;
\echo building indexes
alter table warehouse add primary key (w_id);
alter table district add primary key (w_id, d_id);
alter table customer add primary key (w_id, d_id, c_id);
alter table item add primary key (i_id);
alter table stock add primary key (w_id, i_id);
alter table orders add primary key (w_id, d_id, o_id);
alter table order_line add primary key (w_id, d_id, o_id, line);
commit;
