"""What is measured beside RocketMQ, and the goals."""

from bench.rocketmq.brokers import ROCKETMQ
from bench.sides.lines import Figure, Order, Race, both

SENDS = ("per_s", "cpu_us", "p99_ms", "client_us")
PACED = ("p50_ms", "p99_ms", "cpu_us")

ORDERS = {
    "sync-send": Order("sync send, 16 threads", "send", {"mode": "sync", "threads": 16}, SENDS),
    "async-send": Order("async send, window of 1,000", "send", {"mode": "async", "window": 1_000}, SENDS),
    "batch-send": Order("batches of 32, 4 threads", "send", {"mode": "batch", "threads": 4, "batch": 32}, SENDS),
    "consume": Order("push consume of a backlog", "consume", {}, ("per_s", "cpu_us", "client_us")),
    "publish": Order("publish at 500/s", "publish", {"rate": 500}, PACED),
    "deliver": Order("end to end at 500/s", "deliver", {"rate": 500}, PACED),
}

FIGURES = {
    "per_s": Figure("throughput", "msg/s", 0, least=True, goals={"async": 1.5, "sync": 1.4}),
    "cpu_us": Figure("broker CPU per message", "us", 1, goals=both(0.4)),
    "client_us": Figure("the client's own CPU per message", "us", 1),
    "p50_ms": Figure("p50", "ms", 2),
    "p99_ms": Figure("p99", "ms", 2, goals=both(0.9)),
    "first_s": Figure("to the first message sent", "s", 2, least=True, turned=True, goals=both(18)),
    "idle_mb": Figure("idle", "MB", 0, least=True, turned=True, goals=both(7)),
    "after_mb": Figure("after all lines", "MB", 0, least=True, turned=True),
    "after_anonymous_mb": Figure("after all lines, without page cache", "MB", 0, least=True, turned=True),
}

RACE = Race(ROCKETMQ, "RocketMQ", ORDERS, FIGURES, {"bytes": 1_024, "queues": 4}, heat="async-send")
