"""The Spark source beside Spark's own Kafka connector, on the same messages. `python -m bench.spark`."""
