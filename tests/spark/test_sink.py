"""The sink on a real Spark and a real broker: what is written is there once, as it was meant, or refused in a sentence."""

import asyncio
from collections import Counter

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from penstock.client.sync import PullConsumer


def messages(service: str, topic: str):
    with PullConsumer("nobody", service) as consumer:
        found = []
        for queue in consumer.queues(topic):
            found += consumer.all(queue)
        return found
