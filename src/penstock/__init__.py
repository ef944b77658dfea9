"""Penstock: a durable message broker that speaks RocketMQ and Pulsar."""

__version__ = "0.1.0"
