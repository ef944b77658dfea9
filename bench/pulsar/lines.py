"""What is measured beside Pulsar, and the goals: at least as good on every line.

Consumers acknowledge every message by itself. Backlogs come in two shapes, as producers with and without batches leave
them: an entry of the log, and so a message to the consumer, holds many in the one and a single one in the other.
"""

from bench.pulsar.brokers import PULSAR
from bench.sides.lines import Figure, Order, Race, both

SENDS = ("per_s", "cpu_us", "p99_ms")
PACED = ("p50_ms", "p99_ms", "cpu_us")
CONSUMES = ("per_s", "cpu_us")

BATCHED = {"batched": "true", "window": 10_000}
SINGLE = {"batched": "false", "window": 1_000}

ORDERS = {
    "batch-send": Order("publish 128 B, batched", "send", {**BATCHED, "bytes": 128}, SENDS),
    "single-send": Order("publish 1 KB, unbatched", "send", SINGLE, SENDS),
    "batch-exclusive": Order("exclusive, backlog of batches", "consume", {**BATCHED, "type": "Exclusive"}, CONSUMES),
    "batch-shared": Order("shared, backlog of batches", "consume", {**BATCHED, "type": "Shared"}, CONSUMES),
    "single-exclusive": Order("exclusive, backlog unbatched", "consume", {**SINGLE, "type": "Exclusive"}, CONSUMES),
    "single-shared": Order("shared, backlog unbatched", "consume", {**SINGLE, "type": "Shared"}, CONSUMES),
    "deliver": Order("end to end at 500/s", "deliver", {"rate": 500}, PACED),
}

FIGURES = {
    "per_s": Figure("throughput", "msg/s", 0, least=True, goals=both(1)),
    "cpu_us": Figure("broker CPU per message", "us", 1, goals=both(1)),
    "p50_ms": Figure("p50", "ms", 2, goals=both(1)),
    "p99_ms": Figure("p99", "ms", 2, goals=both(1)),
    "first_s": Figure("to the first message sent", "s", 2, least=True, turned=True, goals=both(15)),
    "idle_mb": Figure("idle", "MB", 0, least=True, turned=True, goals=both(6)),
    "after_mb": Figure("after all lines", "MB", 0, least=True, turned=True),
    "after_anonymous_mb": Figure("after all lines, without page cache", "MB", 0, least=True, turned=True),
}

RACE = Race(PULSAR, "Pulsar", ORDERS, FIGURES, {"bytes": 1_024, "batched": "true"}, heat="single-send")
