# Everything that a person does in this repository. `make` alone says what there is.

VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.complete
ROUNDS ?= 20
SEEDS  ?= 1000
RUNS   ?= 200000
TARGET ?=
SECONDS ?=
TESTS  ?=
ARGS   ?=
AGAIN  ?=
SPARK  ?=
SPARK_STAMP = $(if $(SPARK),build/spark-$(SPARK)/.complete,$(STAMP))
LOOPS  := $(shell find src -name '_*.c' -o -name '*.h')  # compiled: made anew when they change
UV     := uv==0.13.7
PROTOC := grpcio-tools==1.71.2

# The first Python on the path that is new enough; name another with `make setup PYTHON=...`.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup demo test interop test-spark serve bench bench-rocketmq bench-pulsar bench-client bench-spark lint format crash crash-spark fuzz simulate lock proto clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## a virtual environment in .venv with everything pinned in constraints.txt; hot loops compiled where there is a C compiler
	@echo "ready: $(VENV)/bin/penstock --help"

$(STAMP): pyproject.toml constraints.txt setup.py $(LOOPS)
	@[ -n "$(PYTHON)" ] || { echo "penstock needs Python 3.11 or newer and found none: install it," \
		"or name one: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is not" \
		"Python 3.11 or newer: name one that is: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' || { echo "$(PYTHON) comes without venv: on Debian and Ubuntu" \
		"it is the package python3-venv" >&2; exit 1; }
	@echo "1/3 the environment in $(VENV), with $$("$(PYTHON)" --version)"
	@[ -x $(PY) ] || "$(PYTHON)" -m venv $(VENV)
	@echo "2/3 the packages of constraints.txt (about a minute the first time)"
	@$(PY) -m pip install --disable-pip-version-check --no-input --require-hashes -r constraints.txt
	@echo "3/3 penstock itself, editable"
	@$(PY) -m pip install --disable-pip-version-check --no-input --quiet --no-deps --no-build-isolation --editable .
	@$(PY) -m compileall -q src  # as pip does for what it installs: half of the time of a start
	@$(PY) -m compileall -q "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/pyspark"  # pip does not, for all it installs from source
	@$(PY) -m penstock.compiled
	@touch $(STAMP)

demo: $(STAMP) ## a broker under load, kill -9, a RocketMQ client across it, and pipelines on Spark over all that; about a minute
	@$(PY) -m penstock.testing.demo

test: $(STAMP) ## all tests; some: make test TESTS=tests/store
	@$(PY) -m pytest $(TESTS) $(AGAIN)

interop: $(STAMP) ## the real clients of RocketMQ and Pulsar against this broker (needs Java 17 with Maven, Go, Node; what is missing is named)
	@$(PY) -m pytest -m interop $(or $(TESTS),tests/compat) $(AGAIN)

test-spark: $(SPARK_STAMP) ## all tests on Spark, the long ones too: kills, a cluster, every pipeline; on another Spark: make test-spark SPARK=4.3.0
	@$(dir $(SPARK_STAMP))bin/python -m pytest -m "spark or not spark" $(or $(TESTS),tests/spark) $(AGAIN)

# Everything as in constraints.txt, but another Spark.
build/spark-%/.complete: pyproject.toml constraints.txt tests/spark/pyspark-%.txt
	@[ -x $(@D)/bin/python ] || "$(PYTHON)" -m venv $(@D)
	@awk '/^pyspark==/ { skip = 1; next } skip && /^ / { next } { skip = 0; print }' constraints.txt | \
		cat - tests/spark/pyspark-$*.txt > $(@D)/constraints.txt
	@$(@D)/bin/python -m pip install --disable-pip-version-check --no-input --require-hashes -r $(@D)/constraints.txt
	@$(@D)/bin/python -m pip install --disable-pip-version-check --no-input --quiet --no-deps --no-build-isolation --editable .
	@touch $@

serve: $(STAMP) ## a broker on 127.0.0.1 with its data in ./data
	@exec $(VENV)/bin/penstock serve --data data

bench: $(STAMP) ## the log beside the raw disk (appends, syncs, reads, lookups), start, memory and recovery
	@$(PY) -m bench

bench-rocketmq: $(STAMP) ## Penstock beside RocketMQ, same Java client (needs Java 17 with Maven); quickly: make bench-rocketmq ARGS=--quick
	@$(PY) -m bench.rocketmq $(ARGS)

bench-pulsar: $(STAMP) ## Penstock beside Pulsar, same Java client (needs Java 17 with Maven); quickly: make bench-pulsar ARGS=--quick
	@$(PY) -m bench.pulsar $(ARGS)

bench-client: $(STAMP) ## the client for Python beside the Java client, on one Penstock (without Java: make bench-client ARGS="--only python")
	@$(PY) -m bench.client $(ARGS)

bench-spark: $(STAMP) ## the Spark source beside Spark's own Kafka connector on a real Kafka (needs Java 17 with Maven); quickly: make bench-spark ARGS=--quick
	@$(PY) -m bench.spark $(ARGS)

lint: $(STAMP) ## ruff, its formatter, and mypy --strict on src
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy --strict src

format: $(STAMP) ## put the code into the formatter's shape
	@$(VENV)/bin/ruff check --fix-only --quiet .
	@$(VENV)/bin/ruff format .

crash: $(STAMP) ## kill the broker and look at what it kept: make crash ROUNDS=100
	@PENSTOCK_CRASH_ROUNDS=$(ROUNDS) $(PY) -m pytest tests/crash

crash-spark: $(STAMP) ## kill Spark's driver and workers and the broker while a stream runs: make crash-spark ROUNDS=20
	@PENSTOCK_CRASH_ROUNDS=$(ROUNDS) $(PY) -m pytest -m spark tests/spark/full/test_crash.py

# Resolved for every Python from 3.11 on, Linux and macOS. Where this machine looks for packages must not be written down,
# so what pip or uv are told by the environment is taken away, and a lock with an address in it is refused.
lock: ## resolve pyproject.toml into constraints.txt anew (needs the network)
	@[ -x .lock/bin/uv ] || { "$(PYTHON)" -m venv .lock && .lock/bin/pip install --quiet "$(UV)"; }
	@{ echo "# Everything that make setup installs, by name, version and hash. Written by make lock."; \
		env -u PIP_FIND_LINKS -u UV_FIND_LINKS .lock/bin/uv pip compile --quiet --universal --fork-strategy fewest \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade --extra dev pyproject.toml; \
	} > .lock/constraints.txt
	@if grep -nE '://|^-|file:' .lock/constraints.txt; then echo "an address in the lock: not taken over" >&2; exit 1; fi
	@mv .lock/constraints.txt constraints.txt
	@grep -c '==' constraints.txt | sed 's/$$/ packages in constraints.txt/'

# The compiler is older than the library on purpose: what it makes works with every protobuf from 5.29 on.
proto: ## make *_pb2.py and .pyi anew from src/penstock/wire/pulsar/*.proto (needs the network the first time)
	@[ -x .proto/bin/python ] || { "$(PYTHON)" -m venv .proto && .proto/bin/pip install --quiet "$(PROTOC)" "setuptools<80"; }
	@.proto/bin/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src src/penstock/wire/pulsar/*.proto

simulate: $(STAMP) ## a broker and groups of clients on virtual time and a virtual network: make simulate SEEDS=5000
	@$(PY) -m tests.simulation --seeds $(SEEDS)

fuzz: $(STAMP) ## feed the decoders mutated input: make fuzz RUNS=1000000; guided by coverage, where atheris is installed: make fuzz TARGET=frame SECONDS=600
	@$(PY) -m tests.fuzz $(TARGET) $(if $(SECONDS),--atheris $(SECONDS),--runs $(RUNS))

clean: ## everything that make made, except ./data
	find src -name '*.so' -delete
	rm -rf $(VENV) .lock .proto build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
