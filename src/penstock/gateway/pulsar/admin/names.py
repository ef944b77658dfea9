"""From the parts of a path to names. A name is never more than a name here: nothing is looked up by it but topics,
namespaces and tenants, and `/` or `..` in it makes it no name at all.
"""

from penstock.core.namespaces import Namespaces
from penstock.errors import NamespaceNotFound
from penstock.gateway.pulsar.admin.answers import Declined
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.places import Places
from penstock.wire.pulsar.topics import PERSISTENT, TopicName, check_namespace

PART_CHARS_MAX = 255


def topic_of(asked: Asked, places: Places) -> TopicName:
    """The topic that a path names, in a namespace that is there."""
    domain = asked.parts.get("domain", PERSISTENT)
    return places.named(f"{domain}://{asked['tenant']}/{asked['namespace']}/{asked['topic']}")


def namespace_named(asked: Asked) -> str:
    """TENANT/NAMESPACE, whether it is there or not."""
    for part in ("tenant", "namespace"):
        _check_length(asked[part])
    return check_namespace(f"{asked['tenant']}/{asked['namespace']}")


def namespace_of(asked: Asked, namespaces: Namespaces, places: Places) -> str:
    """As `namespace_named`, of one that is there: made by hand, or with topics in it."""
    name = namespace_named(asked)
    if name not in namespaces and not places.names_in(name):
        raise NamespaceNotFound(name)
    return name


def tenant_named(asked: Asked) -> str:
    name = asked["tenant"]
    _check_length(name)
    check_namespace(f"{name}/x")
    return name


def _check_length(part: str) -> None:
    if len(part) > PART_CHARS_MAX:
        raise Declined(412, f"a tenant or namespace has at most {PART_CHARS_MAX} characters")
