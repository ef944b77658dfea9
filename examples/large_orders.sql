-- Orders above a thousand, as messages of their own, with the customer as the key. Each order once.
--   penstock pipeline run etl --sql examples/large_orders.sql --lake lake
--
-- source: orders
--   valueFormat: json
--   valueSchema: id BIGINT, customer STRING, amount DOUBLE, placed TIMESTAMP
-- target: topic large_orders
SELECT customer AS key, 'large' AS tags, id, customer, amount
FROM orders
WHERE amount > 1000
