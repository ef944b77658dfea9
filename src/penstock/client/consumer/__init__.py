"""Consuming by push: see `push`."""

from penstock.client.consumer.handling import Handler, Later
from penstock.client.consumer.push import PushConsumer
from penstock.client.consumer.settings import ConsumerSettings

__all__ = ["ConsumerSettings", "Handler", "Later", "PushConsumer"]
