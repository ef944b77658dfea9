-- Orders above a thousand, out of the archive, as they come.
CREATE STREAMING TABLE large_orders AS
WITH parsed AS (
  SELECT day, from_json(string(body), 'id BIGINT, customer STRING, amount DOUBLE') AS placed
  FROM STREAM archive
  WHERE topic = 'orders'
)
SELECT day, placed.id, placed.customer, placed.amount
FROM parsed
WHERE placed.amount > 1000
