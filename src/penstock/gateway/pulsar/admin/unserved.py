"""What is not served, and why: whoever asks is told, and does not wait.

A line is the beginning of a path, in which `*` stands for any part, with the status and the reason. The first line that
fits counts.
"""

from collections.abc import Sequence

from penstock.gateway.http.messages import Reply, refusal

_TOPIC = "admin/v2/persistent/*/*/*"
_NAMESPACE = "admin/v2/namespaces/*/*"
_SETTINGS = "this is not set for a {} here: what holds for all is set in the broker's configuration"

UNSERVED: tuple[tuple[str, int, str], ...] = (
    ("admin/v2/non-persistent", 405, "non-persistent topics are not served here: use persistent ones"),
    ("admin/v2/schemas/*/*/*/metadata", 404, "where schemas are kept is not told: .../schemas has them all"),
    (f"{_TOPIC}/truncate", 405, "topics are not truncated by hand: retention does it, or delete the topic"),
    (f"{_TOPIC}/trim", 405, "topics are not trimmed by hand: retention does it"),
    (f"{_TOPIC}/offload", 405, "nothing is offloaded: all of the log is on this broker's disk"),
    (f"{_TOPIC}/replication", 405, "there is one cluster, and nothing is copied to others"),
    (f"{_TOPIC}/shadowTopics", 405, "there is one cluster, and nothing is copied to others"),
    (f"{_TOPIC}/permissions", 405, "there are no users yet, so that nobody can be given permissions"),
    (_TOPIC, 405, _SETTINGS.format("topic")),
    (f"{_NAMESPACE}/permissions", 405, "there are no users yet, so that nobody can be given permissions"),
    (f"{_NAMESPACE}/antiAffinity", 405, "there is one broker: nothing can be kept apart"),
    (_NAMESPACE, 405, _SETTINGS.format("namespace")),
    ("admin/v2/clusters", 405, "this broker is its own cluster: there are no others, and it is not changed"),
    ("admin/v2/brokers", 404, "the settings of this broker are in its configuration, and not told here"),
    ("admin/v2/broker-stats", 404, "the broker's figures are at /metrics"),
    ("admin/v3/transactions", 405, "transactions are not served here"),
    ("admin/v3", 404, "functions, connectors and packages are not served here"),
    ("admin/v2/worker", 404, "functions are not served here"),
    ("admin/v2/worker-stats", 404, "functions are not served here"),
    ("admin/v2/resource-quotas", 404, "there is one broker, which serves all bundles"),
    ("admin/v2/resourcegroups", 404, "there are no resource groups here: limits are policies of namespaces and topics"),
    ("admin/v2/bookies", 404, "there are no bookies: the log is on this broker's disk"),
    ("lookup/v2/destination", 404, "names with a cluster in them are not served: TENANT/NAMESPACE/NAME are"),
)


def why_not(path: Sequence[str], method: str, allowed: Sequence[str]) -> Reply:
    """The answer to what no route serves. `allowed` are the methods that the path has, if any."""
    if allowed:
        return _with_methods(refusal(405, f"{method[:50]} is not allowed here, but {', '.join(allowed)}"), allowed)
    for beginning, status, reason in UNSERVED:
        words = beginning.split("/")
        if len(path) >= len(words) and all(word in ("*", part) for word, part in zip(words, path, strict=False)):
            return _with_methods(refusal(status, reason), allowed)
    return refusal(404, f"there is nothing at /{'/'.join(path)[:200]}")


def _with_methods(reply: Reply, allowed: Sequence[str]) -> Reply:
    """A 405 has to say what is allowed, also when that is nothing."""
    if reply.status == 405:
        reply.headers.append(("Allow", ", ".join(allowed)))
    return reply
