"""Topic names: what clients write, and what topics are called here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadTopicName
from penstock.wire.pulsar.topics import check_namespace, from_own, topic_name, topics_hash

PART = st.text("ab-=:._%", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("text", "full", "own", "partition"),
    [
        ("orders", "persistent://public/default/orders", "orders", -1),
        ("a/b/orders", "persistent://a/b/orders", "a%b%orders", -1),
        ("persistent://public/default/orders", "persistent://public/default/orders", "orders", -1),
        ("persistent://a/b/orders-partition-12", "persistent://a/b/orders-partition-12", "a%b%orders", 12),
        ("orders-partition-0", "persistent://public/default/orders-partition-0", "orders", 0),
        ("orders-partition-01", "persistent://public/default/orders-partition-01", "orders-partition-01", -1),
        ("orders-partition--1", "persistent://public/default/orders-partition--1", "orders-partition--1", -1),
        ("x-partition-1-partition-2", "persistent://public/default/x-partition-1-partition-2", "x-partition-1", 2),
        ("a%b%c", "persistent://public/default/a%b%c", "public%default%a%b%c", -1),
        ("non-persistent://a/b/c", "non-persistent://a/b/c", "a%b%c", -1),
        ("grüße", "persistent://public/default/grüße", "grüße", -1),
    ],
)
def test_a_name_and_what_it_is_called_here(text, full, own, partition):
    name = topic_name(text)
    assert (name.full, name.own_name, name.partition) == (full, own, partition)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a/b",
        "a/b/",
        "/b/c",
        "a//c",
        "a/b/c/d",
        "persistent://orders",
        "persistent://tenant/cluster/namespace/topic",
        "other://a/b/c",
        "ten ant/b/c",
        "tenant/na%me/c",
        "%RETRY%group",
        "-partition-1",
        b"\xff\xfe",
        "x" * 2_000,
    ],
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(BadTopicName):
        topic_name(text)


@given(PART, PART, PART)
def test_no_two_names_are_one(tenant, namespace, local):
    """What a topic is called here leads back to its name, and to no other."""
    try:
        name = topic_name(f"{tenant}/{namespace}/{local}")
    except BadTopicName:
        return
    assert from_own(name.own_name) == name


@given(st.text("ab%-", min_size=1, max_size=12))
def test_a_topic_that_can_be_named_has_one_name(own):
    name = from_own(own)
    assert name is None or topic_name(name.full).own_name == own


@pytest.mark.parametrize("own", ["%RETRY%group", "public%default%orders", "a/b", "x-partition-1"])
def test_a_topic_that_pulsars_clients_cannot_name(own):
    assert from_own(own) is None


def test_namespaces():
    assert check_namespace("public/default") == "public/default"
    for wrong in ("public", "a/b/c", "/b", "a/", "a b/c", "", b"\xff"):
        with pytest.raises(BadTopicName):
            check_namespace(wrong)


def test_the_hash_of_a_list_of_topics():
    """As Pulsar's clients make it."""
    assert topics_hash([]) == "00000000"
    assert topics_hash(["persistent://public/default/b", "persistent://public/default/a"]) == "c7559e98"
