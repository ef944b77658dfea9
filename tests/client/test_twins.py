"""Two instances with one ClientID: they find out, say so, and part; unless they must not."""

import logging

import pytest
from tests.client.pushing import Inbox, consumer, owned, send, until

SAME = "127.0.0.1@the-same"
DOUBLED = "two instances of this group have the same ClientID"


def said(caplog: pytest.LogCaptureFixture, line: str) -> list[dict[str, object]]:
    return [record.penstock_fields for record in caplog.records if record.message == line]


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [record.penstock_fields for record in caplog.records if record.message.startswith(DOUBLED)]


async def test_s15_s17_twins_part_and_the_group_heals(penstock, producer, caplog):
    caplog.set_level(logging.WARNING)
    await send(producer, 4)
    inbox = Inbox()
    async with (
        consumer(penstock, "billing", inbox, client_id="127.0.0.1@z") as three,
        consumer(penstock, "billing", inbox, client_id=SAME) as one,
        consumer(penstock, "billing", inbox, client_id=SAME) as two,
    ):
        await until(lambda: len(warnings(caplog)) == 2 and owned(three) == [3])
        orphans = await send(producer, 40, first=100)
        await until(lambda: one.instance.client_id != two.instance.client_id)
        await until(lambda: sorted(owned(one) + owned(two) + owned(three)) == [0, 1, 2, 3])
        assert three.instance.client_id == "127.0.0.1@z"
        bodies = orphans + await send(producer, 40, first=200)
        await until(lambda: set(bodies) <= set(inbox.bodies))
    told = warnings(caplog)
    assert all(fields["client_id"] == SAME for fields in told)
    assert all(str(fields["addresses"]).count("127.0.0.1:") == 2 for fields in told)
    assert {fields["read_twice"] for fields in told} == {"orders/penstock/0, orders/penstock/1"}
    assert {fields["read_by_nobody"] for fields in told} == {"orders/penstock/2"}
    grown = said(caplog, "queues that nobody reads have filled up")
    assert {(fields["queues"], fields["growth"]) for fields in grown} == {("orders/penstock/2", 10)}


async def test_one_that_must_keep_its_id_only_warns(penstock, producer, caplog):
    caplog.set_level(logging.WARNING)
    await send(producer, 4)
    async with (
        consumer(penstock, "billing", Inbox(), client_id=SAME, keep_client_id=True) as one,
        consumer(penstock, "billing", Inbox(), client_id=SAME, keep_client_id=True) as two,
    ):
        await until(lambda: len(warnings(caplog)) >= 2)
        await until(
            lambda: (
                one._twins._since_ms is not None and one.instance.clock.monotonic_ms() - one._twins._since_ms > 1_500
            )
        )
        assert (one.instance.client_id, two.instance.client_id) == (SAME, SAME)
        assert owned(one) == owned(two) == [0, 1]
    assert len(warnings(caplog)) == 2
