"""The properties of a message: name 0x01 value 0x02 name 0x01 value 0x02 ..., with or without the last 0x02.

No escaping; an entry without a name or a value does not count; of two with one name the later one does.
"""

NAME_END, VALUE_END = "\x01", "\x02"
BYTES_MAX = 32_767

KEYS, TAGS, UNIQ_KEY, WAIT, DELAY, CLUSTER = "KEYS", "TAGS", "UNIQ_KEY", "WAIT", "DELAY", "CLUSTER"
MSG_REGION, TRACE_ON = "MSG_REGION", "TRACE_ON"


def parse(text: str) -> dict[str, str]:
    pairs = (item.partition(NAME_END) for item in text.split(VALUE_END))
    return {name: value for name, _, value in pairs if name and value}


def build(properties: dict[str, str]) -> str:
    return "".join(f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items() if name and value)


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
