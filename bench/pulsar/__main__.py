"""Runs both brokers under the same load, prints the table, writes build/bench-pulsar.json.

python -m bench.pulsar                              all of it (about twenty minutes)
python -m bench.pulsar --quick                      one short run: to see that it runs, not how fast Pulsar is
python -m bench.pulsar --lines single-send,batch-shared --flush async
python -m bench.pulsar --only penstock --lines single-send --quick --flush async --profile build/single-send.prof
"""

import sys

from tests.compat.pulsar import toolchain

from bench.pulsar.brokers import Ports, serving
from bench.pulsar.lines import RACE
from bench.sides.command import Command, main

VERSIONS = {"pulsar": toolchain.BROKER, "client": toolchain.JAVA_LTS}

if __name__ == "__main__":
    sys.exit(main(Command(RACE, serving, Ports.free, toolchain.peer_home, VERSIONS)))
