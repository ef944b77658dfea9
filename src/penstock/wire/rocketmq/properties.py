"""The properties of a message: name 0x01 value 0x02 name 0x01 value 0x02 ..., with or without the last 0x02.

No escaping; an entry without a name or a value does not count; of two with one name the later one does.
"""

NAME_END, VALUE_END = "\x01", "\x02"
BYTES_MAX = 32_767

KEYS, TAGS, UNIQ_KEY, WAIT, DELAY, CLUSTER = "KEYS", "TAGS", "UNIQ_KEY", "WAIT", "DELAY", "CLUSTER"
MSG_REGION, TRACE_ON = "MSG_REGION", "TRACE_ON"
RETRY_TOPIC, ORIGIN_ID = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"
REAL_TOPIC, REAL_QUEUE = "REAL_TOPIC", "REAL_QID"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"

# What brokers add, and a message can do without where there is no room for all of it: what is missed least comes first.
SPARED = (CHECK_TIMES, REAL_TOPIC, REAL_QUEUE, ORIGIN_ID, CLUSTER, TRACE_ON, MSG_REGION, RETRY_TOPIC)


def parse(text: str) -> dict[str, str]:
    pairs = (item.partition(NAME_END) for item in text.split(VALUE_END))
    return {name: value for name, _, value in pairs if name and value}


def build(properties: dict[str, str]) -> str:
    return "".join(f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items() if name and value)


def fitted(text: str, bytes_max: int = BYTES_MAX) -> str:
    """With as much of `SPARED` left out as it takes to fit. Stored with more, they would be unreadable: their length is
    two bytes with a sign. May still be too long, for what is left is the sender's.
    """
    spared = iter(SPARED)
    while len(text.encode()) > bytes_max and (name := next(spared, "")):
        kept = parse(text)
        kept.pop(name, None)
        text = build(kept)
    return text


def find(text: str, name: str) -> str:
    """One property, without making a dict of all: for the hot path. Empty when it is not there."""
    marker = name + NAME_END
    if text.startswith(marker):
        at = len(marker)
    else:
        at = text.find(VALUE_END + marker)
        if at < 0:
            return ""
        at += 1 + len(marker)
    end = text.find(VALUE_END, at)
    return text[at:] if end < 0 else text[at:end]
