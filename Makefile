# Everything that a run leaves behind is in TIDEGATE_HOME (default .tidegate) and is stopped by `make down`.
.PHONY: help install demo example-avro example-protobuf test test-fast test-rest test-long lint check fmt up down bench bench-quick chaos docs reference

# The shell looks uv up, line by line: make expands all lines of a recipe before the first one, which may install it, runs.
UV = $$(command -v uv || ls .uv/bin/uv 2>/dev/null || echo python3 -m uv)
RUN = $(UV) run --no-sync
SHELL = bash
export DAGSTER_DISABLE_TELEMETRY := 1
# Where it is set (images for containers do), each of a run's hundreds of processes would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

help:  ## show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install:  ## uv if absent, the locked Python environment, the Kafka jars, Spark's class archive
	@$(UV) --version >/dev/null 2>&1 || { echo "Installing uv ..." >&2; false; } || python3 -m pip install --quiet --disable-pip-version-check uv 2>/dev/null || \
	  { python3 -m venv .uv && .uv/bin/pip install --quiet --disable-pip-version-check uv; } || { rm -rf .uv; \
	    echo "uv is missing, and neither python3 -m pip nor python3 -m venv could install it. Install Python 3.11 to 3.13 with" \
	         "venv (Debian, Ubuntu: apt install python3-venv) or uv itself (https://docs.astral.sh/uv), then make again." >&2; exit 1; }
	@$(UV) python find --quiet --no-python-downloads '>=3.11,<3.14' >/dev/null 2>&1 || { \
	    echo "Python 3.11 to 3.13 is needed, and uv found none ($$(python3 --version 2>&1)). Install one (uv python install 3.13," \
	         "or your system's package), then make again." >&2; exit 1; }
	@$(UV) sync --locked --check --quiet >/dev/null 2>&1 || { \
	    echo "Installing the locked Python environment into .venv (2 GB; a minute or two the first time) ..." >&2; \
	    $(UV) sync --locked --quiet --compile-bytecode; }
	@$(RUN) python -m platform_defs.spark.archive

demo: install  ## 200,000 transfers from Kafka to Postgres, exactly once, and a report
	@$(RUN) tidegate demo

# The contracts of docs/examples in place of those under assets/: their stack has a schema registry.
EXAMPLE = TIDEGATE_CONTRACTS=docs/examples $(RUN)

example-avro: install  ## orders in Avro, by Confluent's serializer, into tables (docs/examples/shop)
	@$(EXAMPLE) tidegate stack up
	@$(EXAMPLE) tidegate topics apply --yes --topic shop.orders
	@$(EXAMPLE) tidegate contract register shop_orders --file docs/examples/shop/orders.avsc
	@$(EXAMPLE) python docs/examples/shop/produce.py
	@$(EXAMPLE) dagster asset materialize -m platform_defs.definitions --select 'group:"shop"'
	@$(EXAMPLE) tidegate verify shop_orders

example-protobuf: install  ## vehicles in Protobuf, likewise (docs/examples/fleet)
	@$(EXAMPLE) tidegate stack up
	@$(EXAMPLE) tidegate topics apply --yes --topic fleet.vehicles
	@$(EXAMPLE) python docs/examples/fleet/produce.py
	@$(EXAMPLE) dagster asset materialize -m platform_defs.definitions --select 'group:"fleet"'
	@$(EXAMPLE) tidegate verify fleet_vehicles

# Workers: one more than there are cores, each with Kafka, Postgres and Spark of its own; as many as cores for unit tests
# (tests/conftest.py).
PYTEST = $(RUN) pytest -q -n auto $(if $(MAKE_TERMOUT),--color=yes)
# Of each property's examples; `make test-long` tries all.
A_QUARTER = TIDEGATES_TEST_EXAMPLES=0.25
SHIPPED = tidegate platform_defs resources assets
# Types are checked while the tests begin; the summary of the tests is what is shown last.
BESIDE_LINT = | { $(MAKE) --no-print-directory check TYPED="$(TYPED)"; checked=$$?; cat; exit $$checked; }

test: TYPED = $(SHIPPED)
test: install  ## lint, types of what ships, all tests but the slow ones
	@set -o pipefail; $(A_QUARTER) $(PYTEST) -m "not slow and not longest" $(TESTS) $(BESIDE_LINT)

test-fast: install  ## ruff and the short unit tests: under a minute, no server (TESTS="-k offsets" for some)
	@$(RUN) ruff check
	@$(PYTEST) -m "unit and not hypothesis and not slow and not long and not longest" $(or $(TESTS),tests/unit)

test-rest: install  ## types of all, the slow tests except the longest, among them a scenario of each fault class (.ci/run)
	@set -o pipefail; $(PYTEST) -m "slow and not longest" $(TESTS) $(BESIDE_LINT)

test-long: install  ## the longest tests: suites repeated, mutations, all examples of each property
	@$(PYTEST) -m "longest or hypothesis" $(TESTS)

lint: install check  ## ruff, basedpyright, import contracts

check:
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) lint-imports
	@$(RUN) basedpyright $(TYPED)

fmt: install  ## format, and fix what ruff can
	@$(RUN) ruff format
	@$(RUN) ruff check --fix

up: install  ## Kafka, Postgres, the Dagster UI with sensors on, and a trickle of transfers
	@$(RUN) tidegate stack up
	@$(RUN) tidegate ui up --trickle 5

down:  ## stop all of it
	@$(RUN) tidegate ui down
	@$(RUN) tidegate stack down

bench-quick: install  ## the first aims: three paths against loops written by hand, and how long a message waits
	@$(RUN) python -m bench --quick

bench: install  ## all paths, and which aims are met (docs/explanation/performance.md)
	@$(RUN) python -m bench.decode
	@$(RUN) python -m bench

chaos: install  ## kill, stop and cut off runs and servers; nothing may be lost or doubled (CHAOS="--seed 1 --kills 20")
	@$(RUN) python -m tests.chaos $(CHAOS)

docs: install  ## build the site into .site/; a warning or a broken link fails it
	@$(RUN) python -m sphinx --quiet --nitpicky --fail-on-warning --keep-going --fresh-env -b html docs .site
	@echo "Open .site/index.html"

reference: install  ## bring what docs/reference takes from the code up to date
	@$(RUN) python -m tests.docs.reference
