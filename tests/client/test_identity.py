"""Ids of clients and of messages."""

import os
import time
from datetime import datetime

import pytest

from penstock.client import identity
from penstock.client.identity import UniqueKeys, fresh_client_id, month_of, stable_client_id


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/New_York"])
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def at_ms(*when: int) -> int:
    return int(datetime(*when).timestamp() * 1000)  # noqa: DTZ001  # local time is what it is about


def test_s16_ids_of_cluster_instances_differ_also_when_host_address_and_process_are_the_same(monkeypatch):
    monkeypatch.setattr(identity.time, "monotonic_ns", lambda: 1)
    monkeypatch.setattr(identity, "local_address", lambda: "10.0.0.1")
    assert len({fresh_client_id() for _ in range(100)}) == 100


def test_s16_a_broadcast_instance_has_the_same_id_at_every_start(monkeypatch):
    monkeypatch.setattr(identity, "local_address", lambda: "10.0.0.1")
    assert stable_client_id() == stable_client_id() == "10.0.0.1@DEFAULT"
    assert stable_client_id("unit") == "10.0.0.1@DEFAULT@unit"


def test_a_message_id_has_javas_shape(zone, monkeypatch):
    monkeypatch.setattr(identity, "local_address", lambda: "10.1.2.3")
    keys, now_ms = UniqueKeys(), at_ms(2024, 2, 3, 4, 5, 6)
    one, two = keys.next(now_ms), keys.next(now_ms)
    assert len(one) == 32
    assert one[:8] == "0A010203"
    assert int(one[8:12], 16) == os.getpid() & 0xFFFF
    assert int(one[20:28], 16) == now_ms - at_ms(2024, 2, 1)
    assert (int(one[28:], 16), int(two[28:], 16)) == (0, 1)
    assert one[:28] == two[:28]


def test_the_time_begins_anew_with_the_month(zone):
    keys, month_ms = UniqueKeys(), at_ms(2024, 3, 1)
    before, after = keys.next(month_ms - 1), keys.next(month_ms)
    assert int(before[20:28], 16) == month_ms - 1 - at_ms(2024, 2, 1)
    assert int(after[20:28], 16) == 0


def test_months_end_where_the_next_begin(zone):
    assert month_of(at_ms(2024, 12, 31, 23, 59)) == (at_ms(2024, 12, 1), at_ms(2025, 1, 1))
    assert month_of(at_ms(2024, 3, 10, 12)) == (at_ms(2024, 3, 1), at_ms(2024, 4, 1))


def test_the_counter_goes_round():
    keys = UniqueKeys()
    found = [keys.next(0)[28:] for _ in range(65_537)]
    assert (found[0], found[65_535], found[65_536]) == ("0000", "FFFF", "0000")
