"""Requests that wait for their reply, between the real clients."""

import pytest
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, body

PAIRS = [(JAVA_4, JAVA_4), (JAVA_5, JAVA_5), (JAVA_4, JAVA_5), (JAVA_5, GO), (GO, JAVA_5), (GO, GO)]


@pytest.mark.parametrize(
    ("asker", "replier"), PAIRS, ids=[f"{asker.name} asks {replier.name}" for asker, replier in PAIRS]
)
def test_a_request_gets_its_reply(asker, replier, use, new_topic, group):
    topic, runner = new_topic(), use(replier, "replier")
    words = ("--namesrv", runner.namesrv, "--topic", topic)
    with runner.start("reply", *words, "--group", group).ready() as answering:
        tries = ("--tries", "10", "--timeout-ms", "4000") if asker is GO else ()
        with use(asker).start("request", *words, "--count", "3", *tries) as asking:
            got = asking.to_the_end()
        heard = [line for line in answering.take(3) if line["status"] == "SEND_OK"]
        heard += [line for line in answering.take(3 - len(heard)) if line["status"] == "SEND_OK"]
    assert [line.get("reply") or line for line in got] == [f"re: {body('m', number)}" for number in range(3)]
    assert [line["body"] for line in heard] == [body("m", number) for number in range(3)]
    assert not answering.rest


@pytest.mark.parametrize("asker", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)
def test_a_request_that_nobody_answers_runs_into_its_timeout(asker, use, new_topic):
    runner = use(asker)
    words = ("--namesrv", runner.namesrv, "--topic", new_topic(), "--count", "1", "--timeout-ms", "3000")
    with runner.start("request", *words) as asking:
        (line,) = asking.to_the_end()
    assert "error" in line
