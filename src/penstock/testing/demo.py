"""`make demo`: the main job end to end, on free ports and a temporary folder, with nothing left running.

Each scene says what it does, does it with a real broker process, and raises when it does not come out as promised.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.testing import demo_spark
from penstock.testing.frames import create_topic
from penstock.testing.journal import Journal, Victim, contents
from penstock.testing.visitors import Visitor, best_visitor

SEGMENT_BYTES = 4 << 20
LOAD_S = 1.5
TOPIC = "payments"  # not one of the journal's
KILL_AFTER = 1_000
MORE = 100
LOST = "shipping"  # a group whose consumer loses its way


class Stage:
    """What the scenes share: a folder and the journal of what was acknowledged."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journal = folder, Journal()
        self.acknowledged: set[str] = set()  # bodies, to the RocketMQ client
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"  {time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    @property
    def data(self) -> str:
        return str(self.folder / "data")


def a_broker_under_load_is_killed(stage: Stage) -> None:
    """A broker takes messages; in the middle of it, kill -9"""
    victim = Victim(stage.data, stage.journal, first=0, seed=1, segment_bytes=SEGMENT_BYTES)
    try:
        victim.wait_until_busy()
        stage.say(f"a broker is up on http://{victim.address}, producers are sending")
        until = time.monotonic() + LOAD_S
        while time.monotonic() < until:
            time.sleep(LOAD_S / 3)  # progress for whoever watches
            stage.say(f"{len(stage.journal):,} messages acknowledged so far")
    finally:
        victim.kill()
    stage.say(
        f"killed with SIGKILL; the journal has {len(stage.journal):,} messages, {len(stage.journal.groups)} groups"
    )


def it_starts_again(stage: Stage) -> None:
    """The same folder again, with `penstock serve`: recovery, health, metrics, a clean stop"""
    began = time.monotonic()
    with _serving(stage) as (addresses, _):
        stage.say(f"ready {(time.monotonic() - began) * 1000:.0f} ms after the command, on http://{addresses['http']}")
        stage.say(f"/readyz says {_get(addresses, '/readyz').strip()}")
        for line in _get(addresses, "/metrics").splitlines():
            if line.startswith(("penstock_topic_messages_total", "penstock_log_damaged")):
                stage.say(f"/metrics: {line}")
    stage.say("stopped by SIGTERM with exit code 0")


def every_acknowledged_message_is_there(stage: Stage) -> None:
    """Everything is read back and compared with the journal"""
    found = contents(stage.data, SEGMENT_BYTES)
    wrong = stage.journal.complaints(found)
    if wrong:
        raise SystemExit(f"{len(wrong)} complaints, such as: {wrong[0]}")
    there = sum(len(numbers) for numbers in found.numbers.values())
    stage.say(
        f"{len(stage.journal):,} acknowledged, all of them there, at their offsets, once; {there:,} messages in all"
    )
    stage.say("the surplus was stored but its acknowledgement had not left the process when it died")


def the_log_is_scrubbed(stage: Stage) -> None:
    """`penstock store verify` reads every byte of it"""
    result = subprocess.run(
        [sys.executable, "-m", "penstock", "store", "verify", stage.data], capture_output=True, text=True, check=False
    )
    for line in result.stdout.splitlines():
        stage.say(line)
    if result.returncode:
        raise SystemExit(f"the log is not sound:\n{result.stdout}{result.stderr}")


def a_rocketmq_client_comes_by(stage: Stage) -> None:
    """A RocketMQ client sends; kill -9 in the middle of it; after a new start another gets everything"""
    visitor = best_visitor(stage.folder / "visitor", stage.say)
    before = _sent_into_the_kill(stage, visitor)
    with _serving(stage) as (addresses, _):
        with visitor.sending(addresses, TOPIC, "after", MORE) as sender:
            after = sender.take(MORE)
        stage.say(f"started again on the same folder; another {len(after):,} sent and acknowledged")
        wanted = stage.acknowledged = {f"before-{number}" for number in before} | {
            f"after-{number}" for number in after
        }
        with visitor.receiving(addresses, TOPIC, "accounting") as receiver:
            got: Counter[str] = Counter()
            while not wanted <= got.keys():
                got.update(receiver.take(1))
    if twice := [body for body, times in got.items() if times > 1]:
        raise SystemExit(f"{twice[0]} came {got[twice[0]]} times")
    stage.say(f"a consumer ({visitor.name}) got all {len(wanted):,} that were acknowledged, each once")


def _sent_into_the_kill(stage: Stage, visitor: Visitor) -> list[int]:
    """The numbers of the messages that were acknowledged before the broker died."""
    with _broker_process(stage) as (addresses, process):
        create_topic(addresses["broker"], TOPIC)
        stage.say(f"{visitor.name}, sending to the topic {TOPIC!r} at {addresses['namesrv']}")
        with visitor.sending(addresses, TOPIC, "before", 100 * KILL_AFTER) as sender:
            acknowledged = sender.take(KILL_AFTER)
            process.kill()
            process.wait()
            acknowledged += sender.rest()
    stage.say(f"killed with SIGKILL while it was sending; {len(acknowledged):,} messages had been acknowledged to it")
    return acknowledged


def spark_has_a_look(stage: Stage) -> None:
    """Spark: the archive and the health pipelines over what is on the broker now"""
    if why := demo_spark.missing():
        stage.say(f"left out. {why}")
        return
    lake = stage.folder / "lake"
    with _serving(stage) as (addresses, _), demo_spark.spark(stage.say) as spark:
        service = f"rocketmq://{addresses['namesrv']}"
        demo_spark.lost_its_way(addresses["namesrv"], TOPIC, LOST)
        stage.say(f"a consumer of group {LOST!r} has pulled from offsets that never were: trouble for `health` to find")
        found = demo_spark.archived(spark, service, lake, TOPIC, stage.say)
        if not stage.acknowledged <= found.keys() or (found and max(found.values()) > 1):
            raise SystemExit("the archive does not hold each acknowledged message once")
        stage.say(f"each of the {len(stage.acknowledged):,} that were acknowledged to the client is in the lake, once")
        troubles = demo_spark.health(spark, service, lake, stage.say)
        if (LOST, "offset_outside") not in troubles:
            raise SystemExit(f"the health pipeline has not found what was made wrong; it found {troubles or 'nothing'}")


SCENES: list[Callable[[Stage], None]] = [
    a_broker_under_load_is_killed,
    it_starts_again,
    every_acknowledged_message_is_there,
    the_log_is_scrubbed,
    a_rocketmq_client_comes_by,
    spark_has_a_look,
]


Broker = tuple[dict[str, str], "subprocess.Popen[bytes]"]


@contextmanager
def _serving(stage: Stage) -> Iterator[Broker]:
    """A broker that is stopped in peace."""
    with _broker_process(stage) as (addresses, process):
        yield addresses, process
        process.send_signal(signal.SIGTERM)
        if code := process.wait(10):
            raise SystemExit(f"the broker ended with exit code {code}")


@contextmanager
def _broker_process(stage: Stage) -> Iterator[Broker]:
    """A broker; whatever happens, it does not outlive the scene."""
    ready = stage.folder / "ready.json"
    ready.unlink(missing_ok=True)
    ports = [option for name in ("namesrv", "broker", "pulsar", "http") for option in (f"--{name}-port", "0")]
    command = [sys.executable, "-m", "penstock", "serve", "--data", stage.data, "--ready-file", str(ready)]
    process = subprocess.Popen([*command, *ports, "--log-level", "warning"])
    try:
        yield _wait_for(ready, process), process
    finally:
        process.kill()
        process.wait()


def _wait_for(ready: Path, process: "subprocess.Popen[bytes]") -> dict[str, str]:
    until = time.monotonic() + 30
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit("the broker did not start")
        time.sleep(0.01)
    found: dict[str, str] = json.loads(ready.read_text())
    return found


def _get(addresses: dict[str, str], path: str) -> str:
    with urllib.request.urlopen(f"http://{addresses['http']}{path}", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        stage = Stage(Path(folder))
        for number, scene in enumerate(SCENES, 1):
            print(f"\n{number}. {(scene.__doc__ or '').strip()}", flush=True)
            scene(stage)
    print("\nDone: nothing acknowledged was lost. Nothing is left running.")


if __name__ == "__main__":
    main()
