# Everything that a run leaves behind lies in TIDEGATE_HOME (default .tidegate) and is stopped by `make down`.
.PHONY: help install demo test up down bench lint

# Looked up each time: the first thing that install does may be to install it.
UV = $(shell command -v uv || ls .uv/bin/uv 2>/dev/null || echo python3 -m uv)
RUN := $(UV) run --no-sync
export DAGSTER_DISABLE_TELEMETRY := 1

help:  ## show what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

install:  ## uv if absent, the locked Python environment, the Kafka jars, Spark's class archive
	@$(UV) --version >/dev/null 2>&1 || python3 -m pip install --quiet --disable-pip-version-check uv 2>/dev/null || \
	  { python3 -m venv .uv && .uv/bin/pip install --quiet uv; } || \
	  { echo "uv is missing and neither pip nor venv could install it. Install uv, then run make again"; exit 1; }
	@$(UV) sync --locked --quiet
	@$(RUN) python -m resources.spark_archive

demo: install  ## 200,000 transfers from Kafka to Postgres, exactly once, and a report
	@$(RUN) tidegate demo

test: lint  ## lint, types, import contracts, all tests
	@$(RUN) pytest

lint: install
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) basedpyright
	@$(RUN) lint-imports

up: install  ## Kafka, Postgres, the Dagster UI with sensors on, and a trickle of transfers
	@$(RUN) tidegate stack up
	@$(RUN) tidegate ui up --trickle 5

down:  ## stop all of it
	@$(RUN) tidegate ui down
	@$(RUN) tidegate stack down

bench: install  ## compare the paths, with ratios (docs/performance.md)
	@$(RUN) python -m bench
