"""What a task does, without Spark: staging and plain sends, over connections that break."""

from collections import Counter

import pyarrow as pa
import pytest
from tests.spark.stored import stored

from penstock.client.errors import Lost, NoRoute, Refused
from penstock.spark import stage
from penstock.spark.link import Link
from penstock.spark.sink import job_for
from penstock.spark.sink_options import SinkOptions
from penstock.spark.writing import Job, write
from penstock.testing.server import running
from penstock.wire.rocketmq.codes import RequestCode


def batches(count: int, body_bytes: int = 1_000) -> list[pa.RecordBatch]:
    bodies = [b"%08d" % number + bytes(body_bytes) for number in range(count)]
    return [
        pa.RecordBatch.from_arrays([pa.array(bodies[at : at + 1_000], pa.binary())], names=["body"])
        for at in range(0, count, 1_000)
    ]


@pytest.fixture
def options(penstock, new_name) -> SinkOptions:
    return SinkOptions(service=penstock.addresses["namesrv"], topic=new_name("out"))


def numbers(penstock, options: SinkOptions) -> Counter[int]:
    return Counter(int(message.body[:8]) for message in stored(penstock.addresses["broker"], options.topic))


def breaking(monkeypatch, at: set[int]) -> list[int]:
    """Let these answers get lost, and their connections with them; how many were taken so far."""
    taken, answer = [0], Link.answer

    def broken(self, opaque):
        found = answer(self, opaque)
        taken[0] += 1
        if taken[0] in at:
            self.close()
            raise Lost(self.address, "broken by a test")
        return found

    monkeypatch.setattr(Link, "answer", broken)
    return taken


def test_a_connection_that_breaks_costs_a_stage_nothing(penstock, options, monkeypatch):
    job = job_for(options)
    taken = breaking(monkeypatch, {3, 6, 7})
    written = write(batches(5_000), job)
    assert taken[0] > 7
    assert stage.commit(job.address, "key " + job.token, [written.stage], f"{job.token}/") is True
    assert stage.commit(job.address, "key " + job.token, [written.stage], f"{job.token}/") is False
    assert numbers(penstock, options) == Counter(range(5_000))
    assert written.rows == 5_000


def test_the_answer_to_a_commit_may_get_lost(penstock, options, monkeypatch):
    job = job_for(options)
    written = write(batches(10), job)
    breaking(monkeypatch, {1})
    assert stage.commit(job.address, "key " + job.token, [written.stage], "") is False  # the first had done it
    assert numbers(penstock, options) == Counter(range(10))


def test_without_rows_nothing_is_staged(options):
    assert write([], job_for(options)).stage == ""


def test_a_broker_that_has_forgotten_the_beginning_says_so(penstock, options, monkeypatch):
    job = job_for(options)
    sent, send = [0], Link.send

    def forgetful(self, code, ext, *body):
        sent[0] += code == RequestCode.STAGE_MESSAGES
        if sent[0] == 8 and code == RequestCode.STAGE_MESSAGES:
            stage.drop(job.address, job.token)  # as a restart would
        return send(self, code, ext, *body)

    monkeypatch.setattr(Link, "send", forgetful)
    with pytest.raises(Refused, match="does not exist: it was never opened, was committed, or has expired"):
        write(batches(20_000), job)


def test_plain_sends_for_who_knows_no_staging(penstock, options):
    job = Job(options, "token")
    assert write(batches(3_000), job).stage == ""
    assert numbers(penstock, options) == Counter(range(3_000))


def test_plain_sends_are_at_least_once(penstock, options, monkeypatch):
    breaking(monkeypatch, {4})  # behind two questions for the route
    write(batches(3_000), Job(options, "token"))
    found = numbers(penstock, options)
    assert set(found) == set(range(3_000))
    assert found.total() > 3_000


def test_plain_sends_with_a_delay_go_one_by_one(penstock, new_name):
    options = SinkOptions(service=penstock.addresses["namesrv"], topic=new_name("late"), delay_ms=1, key="k")
    write(batches(20), Job(options, "token"))
    topic = penstock.server.broker.topics.find("rmq_sys_wheel_timer")
    assert penstock.server.broker.store.table(topic.queues[0]).next_offset >= 20


def test_a_service_that_makes_no_topics_says_that_one_is_missing():
    with running(rocketmq={"auto_create_topics": False}) as penstock:
        options = SinkOptions(service=penstock.addresses["namesrv"], topic="missing")
        with pytest.raises(NoRoute, match="no broker has topic 'missing': create it"):
            job_for(options)


def test_a_message_above_the_limit_is_refused(options):
    with pytest.raises(Refused, match=r"a message of \d+ bytes is above the limit of 4194304"):
        write(batches(1, body_bytes=5 << 20), job_for(options))
