"""The commands that talk to an engine: real processes against a broker in this one."""

import asyncio
import json
import re
import signal
import subprocess
import sys

import pytest
from tests.cli.conftest import PENSTOCK, environment

from penstock import logs
from penstock.cli.main import main
from penstock.client.positions import FIRST
from penstock.client.pull import PullConsumer
from penstock.testing.server import running

COMMANDS = ("topic", "group", "lag", "reset", "request", "message", "produce", "consume")


@pytest.fixture(scope="module")
def broker():
    with running() as penstock:
        yield penstock


@pytest.fixture
def run(broker):
    """Runs a command on the broker to its end: exit code, stdout, stderr."""

    def run(*arguments: str, given: str | bytes = b"") -> tuple[int, str, str]:
        data = given.encode() if isinstance(given, str) else given
        variables = environment(PENSTOCK_ENGINE=f"rocketmq://{broker.addresses['namesrv']}")
        done = subprocess.run([*PENSTOCK, *arguments], input=data, capture_output=True, env=variables, check=False)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.fixture
def quick(broker, monkeypatch, capsys):
    """As `run`, without a process of its own: for what is over before much is done."""

    def quick(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["penstock", *arguments])
        monkeypatch.setattr(logs, "set_up", lambda config: None)
        monkeypatch.setenv("PENSTOCK_ENGINE", f"rocketmq://{broker.addresses['namesrv']}")
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return quick


@pytest.fixture
def of(run):
    """The JSON that a command answers with; it has to succeed."""

    def of(*arguments: str, given: str = "") -> object:
        code, out, err = run(*arguments, "--json", given=given)
        assert code == 0, err
        return json.loads(out)

    return of


@pytest.fixture
def topic(run, request):
    """A topic of one queue, of this test alone."""
    name = re.sub(r"\W", "-", request.node.name)[:60]
    assert run("topic", "create", name, "-q", "1")[0] == 0
    return name


def consumed(broker, topic, group="readers"):
    """A group that has consumed one message of the topic."""

    async def consume() -> None:
        async with PullConsumer(broker.addresses["namesrv"], group, start=FIRST) as consumer:
            await consumer.assign(await consumer.queues(topic))
            await consumer.poll(count=1)

    asyncio.run(consume())
    return group


def test_topics(run, of):
    assert of("topic", "create", "fruit", "-q", "3") == {"created": "fruit", "queues": 3}
    assert "fruit" in [line["name"] for line in of("topic", "list")]
    code, out, _ = run("topic", "list")
    assert code == 0
    assert re.search(r"^fruit +normal +3 +rw +penstock", out, re.MULTILINE)
    assert of("topic", "alter", "fruit", "--queues", "5", "--permissions", "r")["shares"] == [
        {"broker": "penstock", "read_queues": 5, "write_queues": 5, "permissions": "r"}
    ]
    assert "5 queues to read, 5 to write, permissions r" in run("topic", "show", "fruit")[1]
    assert run("topic", "delete", "fruit", given="n\n")[0] == 1
    assert run("topic", "delete", "fruit", given="")[0] == 1  # nobody there to answer
    assert of("topic", "delete", "fruit", "--yes") == {"deleted": "fruit", "messages": 0}
    assert "fruit" not in [line["name"] for line in of("topic", "list", "--all")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("topic", "show", "nowhere"), "there is no topic 'nowhere'"),
        (("group", "show", "nobody"), "there is no group 'nobody'"),
        (("lag", "nobody"), "there is no group 'nobody'"),
        (("reset", "nobody", "nowhere", "--to", "latest"), "no broker has topic 'nowhere'"),
        (("reset", "nobody", "nowhere", "--to", "soon"), "'soon' is no place in a queue"),
        (("request", "approve", "a1b2c3", "--as", "x" * 65), "give yours with --as NAME"),
        (("request", "show", "a1b2c3"), "there is no request 'a1b2c3'"),
        (("request", "approve", "x\x1b[31m", "--yes"), "there is no request"),
        (("message", "show", "xyz"), "32 or 56 hex digits"),
        (("message", "find", "nowhere", "k"), "no broker has topic 'nowhere'"),
        (("consume", "nowhere", "-e"), "no broker has topic 'nowhere'"),
        (("consume", "nowhere", "-f", "%z"), "%z, which is not known"),
        (("consume", "nowhere", "-G", "g"), "no broker has topic 'nowhere'"),
        (("consume", "x", "-G", "g", "-p", "0"), "--queue and --group exclude each other"),
        (("consume", "x", "-G", "g", "-o", "7"), "a group begins at earliest"),
        (("produce", "x", "--input", "xml"), "lines or json"),
        (("produce", "x", "--property", "a"), "NAME=VALUE"),
        (("produce", "x", "/no/such/file"), "cannot be read"),
        (("topic", "list", "--engine", "kafka://x:1"), "is no engine"),
        (("topic", "list", "--engine", "rocketmq://127.0.0.1:1"), "is --engine rocketmq://127.0.0.1:1 right?"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(quick, arguments, told):
    code, out, err = quick(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("penstock: ")
    assert told in err
    assert err.count("\n") == 1


def test_nothing_to_change_is_wrong_usage(quick, topic):
    code, _, err = quick("topic", "alter", topic)
    assert code == 2
    assert "nothing to change" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_help(quick, command):
    code, out, _ = quick(command, "--help")
    assert code == 0
    assert "Usage: penstock " + command in out


def test_a_message_that_the_broker_refuses_is_named(run):
    code, out, err = run("produce", "no spaces", given="x\n")
    assert (code, out) == (2, "")
    assert "message 1 could not be stored" in err
    assert "not a topic name" in err


def test_lines_go_in_and_come_out(run, topic):
    code, out, err = run("produce", topic, given="one\ntwo\n \nthree")
    assert (code, out, err) == (0, "", "4 messages stored\n")
    assert run("consume", topic, "-e") == (0, "one\ntwo\n \nthree\n", "")
    assert run("consume", topic, "-n", "2") == (0, "one\ntwo\n", "")
    assert run("consume", topic, "-e", "--from", "3")[1] == "three\n"
    assert run("consume", topic, "-e", "--from", "latest")[1] == ""
    assert run("consume", topic, "-e", "--from", "1h")[1] == "one\ntwo\n \nthree\n"


def test_an_empty_line_is_no_message(run, topic):
    code, _, err = run("produce", topic, given="one\n\nthree")
    assert code == 2
    assert "message 2 could not be stored" in err
    assert "the body is empty" in err


def test_keys_tags_and_properties(run, topic):
    run("produce", topic, "-K", ":", "-g", "red", "-H", "a=b", given="k1:one\nk2:two:2\nplain\n")
    _, out, _ = run("consume", topic, "-e", "-f", r"%p.%o %k %g %S %s|%%\n")
    assert out.splitlines() == ["0.0 k1 red 3 one|%", "0.1 k2 red 5 two:2|%", "0.2  red 5 plain|%"]
    assert "a=b" in run("consume", topic, "-e", "-n", "1", "-f", "%h")[1]


def test_json_goes_round(run, topic, of):
    body = bytes(range(256))
    run("produce", topic, "-k", "k", "-H", "a=b", "-D", "no such mark", given=body)
    _, line, _ = run("consume", topic, "-e", "--json")
    assert json.loads(line)["body_base64"]
    receipt = of("produce", f"{topic}-copy", "--input", "json", given=line)
    copy = json.loads(run("consume", f"{topic}-copy", "-e", "--json")[1])
    for field in ("body_base64", "keys", "tags"):
        assert copy[field] == json.loads(line)[field]
    assert (copy["properties"]["a"], copy["id"]) == ("b", receipt["id"])
    assert copy["id"] != json.loads(line)["id"]


def test_files_are_messages(run, topic, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}\nwith lines\n")
    assert run("produce", topic, str(tmp_path / "a"), str(tmp_path / "b"))[0] == 0
    assert run("consume", topic, "-e", "-f", "%s;")[1] == "a\nwith lines\n;b\nwith lines\n;"


def test_consume_goes_on_until_it_is_interrupted(broker, topic, run):
    command = [*PENSTOCK, "consume", topic, "--engine", f"rocketmq://{broker.addresses['namesrv']}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        for word in ("first", "second"):
            run("produce", topic, given=f"{word}\n")
            assert process.stdout.readline() == f"{word}\n".encode()
        process.send_signal(signal.SIGINT)
        assert (process.wait(), process.stderr.read()) == (0, b"")


def test_a_member_of_a_group_goes_on_where_the_last_one_stopped(run, topic, of):
    run("produce", topic, given="".join(f"{number}\n" for number in range(5)))
    assert run("consume", topic, "--group", "members", "-n", "2")[:2] == (0, "0\n1\n")
    found = of("lag", "members", "-t", topic)
    assert (found["lag"], found["queues"][0]["committed"], found["queues"][0]["owners"]) == (3, 2, [])
    assert run("consume", topic, "-G", "members", "-e")[:2] == (0, "2\n3\n4\n")
    assert run("consume", topic, "-G", "members", "-e")[:2] == (0, "")
    assert of("lag", "members", "-t", topic)["lag"] == 0


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_member_commits_and_leaves(broker, topic, run, of, end):
    group = f"interrupted-{end}"
    command = [*PENSTOCK, "consume", topic, "-G", group, "--engine", f"rocketmq://{broker.addresses['namesrv']}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        run("produce", topic, given="first\nsecond\n")
        assert [process.stdout.readline() for _ in range(2)] == [b"first\n", b"second\n"]
        process.send_signal(end)
        assert (process.wait(), process.stderr.read()) == (0, b"")
    shown = of("group", "show", group)
    assert (shown["members"], shown["lag"]) == ([], 0)


def test_whoever_has_read_enough_may_go(broker, topic, run):
    run("produce", topic, given="line\n" * 20_000)
    command = " ".join([*PENSTOCK, "consume", topic, "--engine", f"rocketmq://{broker.addresses['namesrv']}"])
    shell = ["sh", "-c", f"{{ {command}; echo $? >&2; }} | head -n 1"]
    done = subprocess.run(shell, capture_output=True, env=environment(), check=True)
    assert (done.stdout, done.stderr) == (b"line\n", b"0\n")


def test_a_message_by_its_id_and_by_its_key(run, topic, of):
    sent = of("produce", topic, "-k", "key-1", given="body")
    assert of("message", "show", sent["offset_id"])["body"] == "body"
    assert of("message", "show", sent["id"], "--topic", topic)["offset"] == 0
    assert of("message", "find", topic, "key-1")["id"] == sent["id"]
    code, out, _ = run("message", "show", sent["offset_id"])
    assert code == 0
    assert re.search(rf"^topic +{topic}$", out, re.MULTILINE)
    code, out, err = run("message", "find", topic, "key-2")
    assert (code, out) == (1, "")
    assert "no message" in err


def test_lag_and_groups(run, topic, of, broker):
    run("produce", topic, given="x\n" * 5)
    group = consumed(broker, topic, "lagging")
    found = of("lag", group)
    assert (found["lag"], [(q["committed"], q["end"], q["lag"]) for q in found["queues"]]) == (4, [(1, 5, 4)])
    assert run("lag", group, "--max", "4")[0] == 0
    code, out, _ = run("lag", group, "--over", "0.1")
    assert (code, "grew by" in out, out.splitlines()[-1]) == (
        0,
        True,
        f"{group} is 4 messages behind, 0 more than 0.1 s ago",
    )
    code, out, _ = run("lag", group, "--max", "3")
    assert (code, f"{group} is 4 messages behind" in out) == (1, True)
    assert group in [line["name"] for line in of("group", "list")]
    assert of("group", "show", group)["lag"] == 4
    assert "0 members online, 4 messages behind" in run("group", "show", group)[1]
    assert of("group", "delete", group, "-y") == {"deleted": group}
    assert group not in [line["name"] for line in of("group", "list")]


def test_a_reset_shows_asks_does_and_reads_back(run, topic, of, broker):
    run("produce", topic, given="x\n" * 5)
    group = consumed(broker, topic)
    code, out, _ = run("reset", group, topic, "--to", "latest", "--dry-run")
    assert code == 0
    assert re.search(r"^penstock +0 +0 +5 +1 +5 +skips 4", out, re.MULTILINE)
    code, out, err = run("reset", group, topic, "--to", "latest", given="n\n")
    assert code == 1
    assert "skips 4" in out
    assert "nothing was changed" in err
    assert of("lag", group, "-t", topic)["lag"] == 4
    code, out, _ = run("reset", group, topic, "--to", "latest", given="y\n")
    assert code == 0
    assert re.search(r"^penstock +0 +5 +5 +5", out, re.MULTILINE)
    assert of("lag", group, "-t", topic)["lag"] == 0
    again = of("reset", group, topic, "--to", "2", "--queue", "0", "--yes")
    assert (again["as_planned"], again["queues"][0]["reads"]) == (True, 2)


def test_s24_a_reset_that_a_second_person_approves(run, topic, of, broker):
    run("produce", topic, given="x\n" * 5)
    group = consumed(broker, topic)
    asked = ("reset", group, topic, "--to", "latest", "--request", "bad orders", "--as", "ann")
    code, out, _ = run(*asked)
    assert code == 0
    assert "skips 4" in out
    (id,) = re.findall(r"penstock request approve (\w+)", out)
    code, _, err = run("reset", group, topic, "--to", "latest", "--request", "", "--yes")
    assert (code, "say why" in err) == (2, True)
    assert of("lag", group, "-t", topic)["lag"] == 4
    assert [(one["id"], one["asked_by"], one["why"]) for one in of("request", "list")] == [(id, "ann", "bad orders")]

    code, _, err = run("request", "approve", id, "--as", "ann", "--yes")
    assert (code, "somebody else approves it" in err) == (2, True)
    code, out, err = run("request", "approve", id, "--as", "bob", given="n\n")
    assert (code, "nothing was changed" in err, "ann asks for this" in out) == (1, True, True)
    assert "nobody has decided yet" in run("request", "show", id)[1]

    code, out, _ = run("request", "approve", id, "--as", "bob", given="y\n")
    assert code == 0
    assert re.search(r"^penstock +0 +5 +5 +5", out, re.MULTILINE)
    assert of("lag", group, "-t", topic)["lag"] == 0
    code, out, _ = run("request", "show", id)
    assert (code, "approved by bob" in out, "done as planned" in out) == (0, True, True)
    assert of("request", "list") == []
    assert re.search(rf"^{id} +done .* ann +bob +bad orders$", run("request", "list", "--all")[1], re.MULTILINE)


def test_a_request_is_rejected(run, topic, of, broker):
    run("produce", topic, given="x\n" * 5)
    group = consumed(broker, topic)
    asked = of("reset", group, topic, "--to", "latest", "--request", "bad orders", "--as", "ann")
    id = asked["request"]["id"]
    assert run("request", "reject", id, "--as", "bob")[:2] == (0, f"{id} is rejected\n")
    assert "rejected by bob" in run("request", "show", id)[1]
    code, _, err = run("request", "approve", id, "--as", "cleo", "--yes")
    assert (code, f"request {id} is rejected already, by bob" in err) == (2, True)
    assert of("lag", group, "-t", topic)["lag"] == 4


def test_what_comes_from_elsewhere_cannot_drive_the_terminal(run, topic, of):
    sent = of("produce", topic, "-k", "k\x1b[31m", given="\x1b[2J")
    code, out, _ = run("message", "show", sent["offset_id"])
    assert code == 0
    assert "\x1b" not in out
