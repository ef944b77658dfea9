"""Topic names, as Pulsar's clients write them and as this broker's topics are called.

    persistent://tenant/namespace/name[-partition-N]      the whole name; N is a queue of the topic
    tenant/namespace/name                                 the same
    name                                                  in public/default

A topic `x` of `public/default` is called `x` here, and so by RocketMQ's clients; one of another namespace is called
`tenant%namespace%x`. A topic of `public/default` whose own name looks like that gets the long form too, so that no two
names are one. (`own_name` and `from_own` are each other's opposite.)
"""

import re
from collections.abc import Iterable

import msgspec
from crc32c import crc32c

from penstock.errors import BadTopicName

PERSISTENT, NON_PERSISTENT = "persistent", "non-persistent"
PUBLIC, DEFAULT = "public", "default"
NAME_CHARS_MAX = 1_024  # as a client gives it

_SCHEME = "://"
_PART = re.compile(r"[-=:.A-Za-z0-9_]+")  # of tenants and namespaces
_PARTITION = "-partition-"
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class TopicName(msgspec.Struct, frozen=True):
    """`partition` is -1 where the name does not end with one."""

    domain: str
    tenant: str
    namespace: str
    local: str
    partition: int = -1

    @property
    def full(self) -> str:
        return self.base if self.partition < 0 else f"{self.base}{_PARTITION}{self.partition}"

    @property
    def base(self) -> str:
        """Without the partition."""
        return f"{self.domain}{_SCHEME}{self.tenant}/{self.namespace}/{self.local}"

    @property
    def own_name(self) -> str:
        """What the topic is called here."""
        if (self.tenant, self.namespace) == (PUBLIC, DEFAULT) and _split(self.local) is None:
            return self.local
        return f"{self.tenant}%{self.namespace}%{self.local}"

    def of_partition(self, index: int) -> "TopicName":
        return msgspec.structs.replace(self, partition=index)


def topic_name(text: str | bytes) -> TopicName:
    """A name as a client gives it; BadTopicName when it is none. (Bytes: it was not UTF-8.)"""
    if isinstance(text, bytes):
        raise BadTopicName(repr(text[:100]), "it is not UTF-8")
    if len(text) > NAME_CHARS_MAX:
        raise BadTopicName(text, f"it has {len(text)} characters, at most {NAME_CHARS_MAX} are taken")
    domain, given, rest = text.rpartition(_SCHEME)
    domain = domain if given else PERSISTENT
    if domain not in (PERSISTENT, NON_PERSISTENT):
        raise BadTopicName(text, "it begins with persistent:// or non-persistent://")
    parts = rest.split("/")
    if len(parts) == 1 and not given:
        parts = [PUBLIC, DEFAULT, rest]
    if len(parts) != 3:
        raise BadTopicName(text, "a name is TENANT/NAMESPACE/NAME, or NAME alone")
    tenant, namespace, local = parts
    check_namespace(f"{tenant}/{namespace}")
    local, partition = _partition_of(local)
    if not local.strip():
        raise BadTopicName(text, "the last part is empty")
    if local.startswith("%"):
        raise BadTopicName(text, "such names belong to RocketMQ's clients")
    return TopicName(domain, tenant, namespace, local, partition)


def check_namespace(text: str | bytes) -> str:
    """TENANT/NAMESPACE, or BadTopicName."""
    if isinstance(text, bytes):
        raise BadTopicName(repr(text[:100]), "it is not UTF-8")
    tenant, _, namespace = text.partition("/")
    if not (_PART.fullmatch(tenant) and _PART.fullmatch(namespace)):
        raise BadTopicName(text, "a namespace is TENANT/NAMESPACE, of letters, digits and -=:._")
    return text


def _partition_of(local: str) -> tuple[str, int]:
    base, found, index = local.rpartition(_PARTITION)
    return (base, int(index)) if found and _INDEX.fullmatch(index) else (local, -1)


def from_own(name: str) -> TopicName | None:
    """What Pulsar's clients call a topic that is called so here; None when they cannot name it."""
    tenant, namespace, local = _split(name) or (PUBLIC, DEFAULT, name)
    found = TopicName(PERSISTENT, tenant, namespace, local)
    reachable = _partition_of(local)[1] < 0 and not local.startswith("%") and "/" not in local
    return found if reachable and found.own_name == name else None


def _split(name: str) -> tuple[str, str, str] | None:
    """The parts of a name that looks like TENANT%NAMESPACE%NAME."""
    tenant, _, rest = name.partition("%")
    namespace, found, local = rest.partition("%")
    if found and local and _PART.fullmatch(tenant) and _PART.fullmatch(namespace):
        return tenant, namespace, local
    return None


def topics_hash(names: Iterable[str]) -> str:
    """What clients compare to see whether a list of topics has changed."""
    return crc32c(",".join(sorted(names)).encode()).to_bytes(4, "little").hex()
