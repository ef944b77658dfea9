"""How a consumer works: what it may hold, how long it waits, how often it tries. The defaults are RocketMQ's, where it
has one. (How often it heartbeats, rebalances and persists is in `instance.Timers`.)
"""

import msgspec

RETRY_PREFIX = "%RETRY%"
RECONSUME_MAX = 16  # of a concurrent consumer that says nothing


class ConsumerSettings(msgspec.Struct, frozen=True):
    concurrency: int = 20  # handlers at once; an orderly consumer has one for each queue
    pull_messages: int = 256  # asked for at once; brokers give less
    pull_suspend_ms: int = 15_000  # how long a broker may hold a pull
    pull_timeout_ms: int = 30_000

    queue_messages_max: int = 1_000  # in hand, of one queue: no pull beyond any of these
    queue_bytes_max: int = 100 << 20
    queue_span_max: int = 2_000  # from the first unfinished message to the last one

    refused_wait_ms: int = 3_000  # after code 25
    failed_wait_ms: int = 1_000  # after any other failure, twice as long each time
    failed_wait_ms_max: int = 10_000

    reconsume_max: int = -1  # then a message is a dead letter; -1: 16 times, orderly: for ever
    reconsume_wait_ms: int = 5_000  # here, when it could not be sent back
    suspend_ms: int = 1_000  # an orderly queue whose handler failed
    handle_timeout_ms: int = 15 * 60_000  # a handler that takes longer is cancelled, its message comes again

    handover_ms: int = 1_000  # work under way may end before a queue that is somebody else's now is let go
    close_timeout_ms: int = 10_000  # and before the consumer is closed

    lock_interval_ms: int = 20_000  # an orderly consumer renews its locks so often
    lock_valid_ms: int = 30_000  # and does not trust one that is older; brokers keep them for 60 s
