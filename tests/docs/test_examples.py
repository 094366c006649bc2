"""docs/examples: each from nothing to rows in one command, with the contract, schema and producer that it shows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from platform_defs.contract.reader.catalogue import find_all
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.messages import MessageSchemas
from platform_defs.formats.writer_fields import difference, doubts, fields_of
from platform_defs.formats.writer_fit import why_not
from platform_defs.samples.encoded import EncodedSamples
from tests.docs.test_commands import ROOT, environment_of, left_running, run_command

EXAMPLES = ROOT / "docs" / "examples"
SCHEMAS = {"shop_orders": EXAMPLES / "shop" / "orders.avsc", "fleet_vehicles": EXAMPLES / "fleet" / "vehicles.proto"}
TARGETS = ("example-avro", "example-protobuf")
COUNTS = """
select (select (count(*), sum(amount)) from shop.orders)::text,
       (select (sum(orders), sum(amount)) from shop.revenue)::text,
       (select (count(*), count(seen_at), count(distinct status)) from fleet.vehicles)::text
"""


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a user who has typed nothing yet; in the end, `make down`."""
    environment = environment_of(tmp_path)
    try:
        yield environment
    finally:
        run_command("make down", environment)
    assert left_running(environment) == []


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_one_command_each_goes_from_nothing_to_rows(newcomer: dict[str, str]) -> None:
    for target, pipeline in zip(TARGETS, SCHEMAS, strict=True):
        message = run_command(f"make {target}", newcomer)
        assert f"{pipeline} is exact: 1,000 messages compared one by one" in message
    status = json.loads(run_command("uv run --no-sync tidegate stack status --show-password -o json", newcomer))
    assert status["registry"]["url"].startswith("http://127.0.0.1:")
    with psycopg.connect(status["postgres"]["url"]) as connection:
        assert connection.execute(COUNTS).fetchone() == ("(1000,62625.00)", "(1000,62625.00)", "(50,50,2)")


def test_the_contract_of_each_example_reads_what_its_schema_writes() -> None:
    found = find_all(EXAMPLES)
    assert found.broken == ()
    assert {item.name for item in found.pipelines} == SCHEMAS.keys()
    for contract in (item.contract for item in found.pipelines):
        writer = WriterSchema("1", contract.format, SCHEMAS[contract.pipeline].read_text())
        fields = fields_of(writer, contract.wire.record)
        assert why_not(contract, writer) is None
        assert difference(contract, fields).missing == ()
        assert [text for text in doubts(contract, fields) if "decimal" in text or "timestamp (" in text] == []


def test_messages_of_each_example_can_be_made_up() -> None:
    """Also if their schema requires what the contract does not read: the country of an order."""
    for contract in (item.contract for item in find_all(EXAMPLES).pipelines):
        writer = WriterSchema("1", contract.format, SCHEMAS[contract.pipeline].read_text())
        assert len([*EncodedSamples(contract, MessageSchemas(writer), 1).good(200)]) == 200


@pytest.mark.parametrize("target", TARGETS)
def test_the_readme_names_the_command_and_its_page_shows_what_it_runs(target: str) -> None:
    assert f"`make {target}`" in (ROOT / "README.md").read_text()
    recipe = (ROOT / "Makefile").read_text().partition(f"\n{target}:")[2].partition("\n\n")[0]
    commands = re.findall(r"@\$\(EXAMPLE\) (.*)", recipe)
    (page,) = [text for text in (path.read_text() for path in EXAMPLES.glob("*/README.md")) if f"make {target}" in text]
    shown = page.partition("export TIDEGATE_CONTRACTS=docs/examples\n")[2].partition("```")[0].splitlines()
    assert len(commands) > 3
    assert shown == commands
