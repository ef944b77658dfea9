"""Consuming by push: see `push`. Each name is loaded when it is first used."""

from typing import TYPE_CHECKING

from penstock.lazily import loader

if TYPE_CHECKING:
    from penstock.client.consumer.handling import Handler, Later
    from penstock.client.consumer.push import PushConsumer
    from penstock.client.consumer.settings import ConsumerSettings

__all__ = ["ConsumerSettings", "Handler", "Later", "PushConsumer"]

__getattr__ = loader(
    __name__,
    {"handling": ("Handler", "Later"), "push": ("PushConsumer",), "settings": ("ConsumerSettings",)},
)
