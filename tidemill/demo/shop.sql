-- A shop: orders of customers, categories in categories; four views that are kept up to date.
CREATE TABLE categories (id BIGINT PRIMARY KEY, name STRING NOT NULL, parent BIGINT);
CREATE TABLE products (id BIGINT PRIMARY KEY, name STRING NOT NULL, category BIGINT NOT NULL);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, product BIGINT, day DATE, amount DECIMAL(12, 2));

CREATE VIEW lines AS
    SELECT o.id, o.customer, o.day, o.amount, p.name AS product, p.category
    FROM orders AS o JOIN products AS p ON o.product = p.id;

-- each customer's latest order, and what was spent up to it
CREATE MATERIALIZED VIEW latest AS
    SELECT customer, day, product, spent
    FROM (
        SELECT *, sum(amount) OVER (PARTITION BY customer ORDER BY day, id) AS spent,
               row_number() OVER (PARTITION BY customer ORDER BY day DESC, id DESC) AS place
        FROM lines
    ) AS numbered
    WHERE place = 1;

-- categories with all that is below them
CREATE MATERIALIZED VIEW sales AS
    WITH MUTUALLY RECURSIVE
        below (top BIGINT, id BIGINT) AS (
            SELECT id, id FROM categories
            UNION
            SELECT below.top, categories.id FROM below, categories WHERE categories.parent = below.id
        )
    SELECT categories.name, sum(amount) AS total
    FROM lines JOIN below ON lines.category = below.id JOIN categories ON categories.id = below.top
    GROUP BY categories.name;

BEGIN;
INSERT INTO categories VALUES (1, 'drinks', NULL), (2, 'hot drinks', 1), (3, 'tea', 2), (4, 'juice', 1);
INSERT INTO products VALUES (1, 'Assam', 3), (2, 'Earl Grey', 3), (3, 'apple juice', 4);
INSERT INTO orders VALUES
    (1, 'Ada', 1, DATE '2025-03-01', 12.50), (2, 'Ada', 3, DATE '2025-03-04', 4),
    (3, 'Bob', 2, DATE '2025-03-02', 8), (4, 'Bob', 1, DATE '2025-03-03', 25);
COMMIT;

SUBSCRIBE latest;
SUBSCRIBE sales;

-- an order that comes late, and one that was wrong
INSERT INTO orders VALUES (5, 'Ada', 2, DATE '2025-02-28', 8);
UPDATE orders SET amount = 12.50 WHERE id = 4;

-- juice is no drink any more: the recursion follows
UPDATE categories SET parent = NULL WHERE name = 'juice';

SELECT customer, sum(amount) AS spent FROM orders GROUP BY customer ORDER BY spent DESC;
