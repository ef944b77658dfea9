-- How much went through, minute by minute and queue by queue: a row when the minute can take no more, ten minutes later.
CREATE STREAMING TABLE traffic AS
SELECT window.start AS minute, broker, topic, queue, count(*) AS messages, sum(octet_length(body)) AS bytes,
  max(unix_millis(store_time) - unix_millis(born_time)) AS delay_ms_max
FROM STREAM archive WATERMARK store_time DELAY OF INTERVAL 10 MINUTES
GROUP BY window(store_time, '1 minute'), broker, topic, queue
