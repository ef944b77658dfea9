"""The names of properties that carry over what the other protocol has no word for.

On the way to RocketMQ they begin with `PULSAR_`, on the way to Pulsar with `ROCKETMQ_`. A message that comes back to
the protocol that it came from gets what it had: what `to_rocketmq` writes, `to_pulsar` understands.
"""

from penstock.wire.rocketmq import properties as props

# Pulsar's, as RocketMQ's clients see them.
KEY = "PULSAR_KEY"  # of a message that has a property KEYS beside it
KEY_BASE64 = "PULSAR_KEY_BASE64"  # "true": the key is bytes, in base64
ORDERING_KEY = "PULSAR_ORDERING_KEY"  # in base64, where it is not text that a property can hold
EVENT_TIME = "PULSAR_EVENT_TIME"
NULL_VALUE = "PULSAR_NULL_VALUE"  # "true": no body, which is not an empty one
EMPTY = "PULSAR_EMPTY"  # "true": the body is empty, and a space for clients that break over that
SCHEMA_VERSION = "PULSAR_SCHEMA_VERSION"  # in hex
PROPERTIES = "PULSAR_PROPERTIES"  # a JSON object: properties that RocketMQ cannot hold, or that would mean something
LEFT_OUT = "PULSAR_LEFT_OUT"  # how many properties did not fit
ENCRYPTED = "PULSAR_ENCRYPTED"  # "true": the body is as it was sent, and PULSAR_METADATA says how to open it
UNOPENED = "PULSAR_UNOPENED"  # why the body is as it was sent
METADATA = "PULSAR_METADATA"  # of what is as it was sent: the metadata as it came, in base64
MESSAGES = "PULSAR_MESSAGES"  # how many messages are in a body that was not opened
CHUNK = "PULSAR_CHUNK"  # "2/5": the body is the second part of a message that could not be joined
CHUNK_OF = "PULSAR_CHUNK_OF"  # which message that is

# RocketMQ's, as Pulsar's clients see them.
FLAG = "ROCKETMQ_FLAG"
COMPRESSED = "ROCKETMQ_COMPRESSED"  # with what a body is compressed that could not be opened
WHY = "ROCKETMQ_UNOPENED"

SHARDING_KEY = "__SHARDINGKEY"  # what RocketMQ's producers choose the queue by: the ordering key there
# What RocketMQ's clients and brokers say to each other: nothing that a message means.
TRANSPORT = frozenset((props.WAIT, props.CLUSTER, "MSG_REGION", "TRACE_ON"))
# What would have an effect on RocketMQ's side that a Pulsar producer did not mean.
ACTING = TRANSPORT | frozenset(
    (
        props.DELAY, SHARDING_KEY, "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "MIN_OFFSET",
        "MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME",
        "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "TRAN_PREPARED_QUEUE_OFFSET", "CORRELATION_ID", "REPLY_TO_CLIENT",
        "TTL", "ARRIVE_TIME", "MSG_TYPE", "INSTANCE_ID", "PUSH_REPLY_TIME", "DUP_INFO", "EXTEND_UNIQ_INFO",
        "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_DEL_UNIQKEY", "__STARTDELIVERTIME", "POP_CK", "1ST_POP_TIME",
        "INNER_NUM", "INNER_BASE",
    )
)  # fmt: skip
