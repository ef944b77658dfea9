"""Where Spark looks for `format("penstock")`: this package is found by itself where Python can import it."""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
