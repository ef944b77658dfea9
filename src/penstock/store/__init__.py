"""The durable log: segments, queue tables, recovery, retention. Knows no protocol."""
