"""Runs both brokers under the same load, prints the table, writes build/bench-rocketmq.json.

python -m bench.rocketmq                            all of it (about a quarter of an hour)
python -m bench.rocketmq --quick                    one short run: to see that it runs, not how fast RocketMQ is
python -m bench.rocketmq --lines async-send,consume --flush async
python -m bench.rocketmq --only penstock --lines async-send --quick --flush async --profile build/async-send.prof
"""

import sys

from tests.compat.rocketmq import toolchain

from bench.rocketmq.brokers import Ports, serving
from bench.rocketmq.lines import RACE
from bench.sides.command import Command, main

VERSIONS = {"rocketmq": toolchain.BROKER_5, "client": toolchain.CLIENT_5}


def prepare(say: toolchain.Say) -> None:
    toolchain.peer_classpath(toolchain.BROKER_5, say)


if __name__ == "__main__":
    sys.exit(main(Command(RACE, serving, Ports.free, prepare, VERSIONS)))
