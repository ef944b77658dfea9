-- Revenue per minute and customer, into the lake. A minute is written when it cannot change any more: two minutes after it.
--   penstock pipeline run etl --sql examples/revenue_by_minute.sql --lake lake
--
-- source: orders
--   valueFormat: json
--   valueSchema: id BIGINT, customer STRING, amount DOUBLE, placed TIMESTAMP
-- target: lake revenue_by_minute
--   partitionBy: day
SELECT window.start AS minute, to_date(window.start) AS day, customer, count(*) AS orders, sum(amount) AS revenue
FROM orders WATERMARK placed DELAY OF INTERVAL 2 MINUTES
GROUP BY window(placed, '1 minute'), customer
