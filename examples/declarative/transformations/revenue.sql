-- Revenue per day and customer, of all there is in the archive.
CREATE MATERIALIZED VIEW revenue AS
WITH parsed AS (
  SELECT day, from_json(string(body), 'id BIGINT, customer STRING, amount DOUBLE') AS placed
  FROM archive
  WHERE topic = 'orders'
)
SELECT day, placed.customer, count(*) AS orders, sum(placed.amount) AS revenue
FROM parsed
GROUP BY day, placed.customer
