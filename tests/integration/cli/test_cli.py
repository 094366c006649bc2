"""Each command as a separate process: for a person, as JSON, and called wrongly."""

import json
import os
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from platform_defs.ledger.ledger import Ledger
from platform_defs.settings.contracts import find_pipeline
from platform_defs.stack.endpoints import Endpoints
from tests.support import commands
from tests.support.world import World

PIPELINE = "web_page_views"


def tidegate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from platform_defs.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False)


def answer(*arguments: str, code: int = 0) -> Any:
    done = tidegate(*arguments, "-o", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def before(endpoints: Endpoints) -> dict[str, Any]:
    """Return what other tests of the session have left in the shipped pipeline."""
    Ledger(endpoints.postgres_url).migrate()
    return {"dlq": answer("dlq", "list", PIPELINE, "--limit", "1"), "verify": answer("verify", PIPELINE)}


@pytest.fixture(scope="module")
def produced(before: dict[str, Any], endpoints: Endpoints, spark: Callable[[], SparkSession]) -> Any:
    """Return produce's output, once a run has read all messages."""
    message = answer("produce", PIPELINE, "--count", "2000", "--bad", "32", "--seed", "7")
    World(endpoints, spark).drain(find_pipeline(PIPELINE))
    return message


def test_produce_tells_what_it_sent(produced: Any) -> None:
    assert (produced["produced"], produced["good"], sum(produced["bad"].values())) == (2000, 1968, 32)
    assert sum(produced["partitions"].values()) == 2000
    assert len(produced["bad"]) > 10


def test_every_bad_message_gets_the_reason_that_produce_foretold(before: dict[str, Any], produced: Any) -> None:
    found = answer("dlq", "list", PIPELINE, "--limit", "32")
    counts = [
        Counter({row["error_class"]: row["messages"] for row in one["by_reason"]}) for one in (found, before["dlq"])
    ]
    assert counts[0] - counts[1] == produced["bad"]
    assert len(found["messages"]) == 32


@pytest.mark.slow
def test_dead_letters_are_counted_by_reason_with_an_example_and_listed(produced: Any) -> None:
    counted = tidegate("dlq", "list", PIPELINE).stdout
    assert "example" in counted
    assert f"To list messages: tidegate dlq list {PIPELINE} --reason " in counted
    total = answer("dlq", "list", PIPELINE, "--limit", "1")["dead_letters"]
    assert f"Showing 3 of {total:,} (--limit)." in tidegate("dlq", "list", PIPELINE, "--limit", "3").stdout
    every = answer("dlq", "list")
    assert {one["pipeline"]: one["dead_letters"] for one in every["pipelines"]}[PIPELINE] == total


@pytest.mark.longest
def test_lag_is_nothing_after_a_run(produced: Any) -> None:
    found = answer("lag", PIPELINE)
    assert (found["lag"], found["state"], len(found["partitions"])) == (0, "active", 4)
    assert sum(part["position"] for part in found["partitions"]) >= 2000
    everyone = {item["pipeline"]: item for item in answer("lag")["pipelines"]}
    assert everyone[PIPELINE] == found  # the others'
    assert f"{PIPELINE}: 0 messages behind web.page_views, active" in tidegate("lag").stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["lag", f"lag {PIPELINE}", "stack status", f"dlq list {PIPELINE}", "migrate"])
def test_what_only_asks_imports_nothing_heavy(produced: Any, arguments: str) -> None:
    asked = commands.tidegate(*arguments.split(), "-o", "json")
    assert asked.code == 0, asked.stderr
    assert asked.packages.isdisjoint({*commands.HEAVY, "pyarrow", "numpy"})


@pytest.mark.slow
def test_migrate_of_a_ledger_that_is_up_to_date_does_nothing(produced: Any) -> None:
    assert answer("migrate") == {"applied": [], "created": []}


@pytest.mark.longest
def test_verify_answers_in_numbers_and_in_a_sentence(before: dict[str, Any], produced: Any) -> None:
    found = answer("verify", PIPELINE)
    assert found["ok"]
    more = {name: found[name] - before["verify"][name] for name in ("messages", "rows", "dead_letters")}
    assert more == {"messages": 2000, "rows": 1968, "dead_letters": 32}
    assert (found["lost"], found["duplicated"], found["wrong"], found["skipped"], found["filtered"]) == (0, 0, 0, 0, 0)
    person = tidegate("verify", PIPELINE)
    assert f"{PIPELINE} is exact: {found['messages']:,} messages compared" in person.stdout
    assert "compared" in person.stderr


@pytest.mark.longest
def test_verify_exits_1_where_a_row_is_missing(produced: Any, world: World) -> None:
    one = "DELETE FROM web.page_views WHERE event_id = (SELECT min(event_id) FROM web.page_views) RETURNING *"
    kept = world.rows(one)[0]
    found = answer("verify", PIPELINE, code=1)
    assert (found["ok"], found["lost"]) == (False, 1)
    assert found["samples"][0]["offset"] == kept["_offset"]
    world.rows(f"INSERT INTO web.page_views VALUES ({', '.join(['%s'] * len(kept))})", *kept.values())
    assert answer("verify", PIPELINE)["ok"]


@pytest.mark.longest
def test_one_dead_letter_is_shown_byte_for_byte(produced: Any) -> None:
    first = answer("dlq", "list", PIPELINE, "--reason", "InvalidUtf8", "--limit", "1")["messages"][0]
    place = (PIPELINE, str(first["partition"]), str(first["offset"]))
    shown = answer("dlq", "show", *place, "--values")
    assert (shown["error_class"], shown["hidden"]) == ("InvalidUtf8", False)
    assert shown["value"]["bytes"] == first["bytes"]
    assert b"\xff" in b64decode(shown["value"]["base64"])
    assert "text" not in shown["value"]
    assert r"\xff" in tidegate("dlq", "show", *place, "--values").stdout


@pytest.mark.longest
def test_a_dead_letter_with_classified_fields_is_shown_only_where_that_is_asked_for(produced: Any) -> None:
    first = answer("dlq", "list", PIPELINE, "--reason", "InvalidUtf8", "--limit", "1")["messages"][0]
    place = (PIPELINE, str(first["partition"]), str(first["offset"]))
    shown = answer("dlq", "show", *place)
    assert (shown["hidden"], shown["value"]) == (True, {"bytes": first["bytes"]})
    person = tidegate("dlq", "show", *place).stdout
    assert f"(hidden: {first['bytes']} bytes; --values shows it)" in person
    assert r"\xff" not in person


@pytest.mark.slow
def test_resolve_of_a_pipeline_that_runs_does_nothing(produced: Any) -> None:
    assert answer("resolve", PIPELINE) == {"pipeline": PIPELINE, "state": "active", "resolved": False}


@pytest.mark.longest
def test_produce_keeps_a_rate_and_stops_in_time() -> None:
    found = answer("produce", "crm_customers", "--rate", "200", "--seconds", "2", "--bad-share", "0.1")
    assert found["produced"] == 400
    assert sum(found["bad"].values()) == 40
    assert found["tombstones"] > 0
    assert answer("lag", "crm_customers")["lag"] >= 400


@pytest.mark.longest
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["verify", "nothing"], 3, "there is no pipeline 'nothing'; the pipelines are: bank_transfers"),
        (["produce", "nothing"], 1, "there is no pipeline 'nothing'"),
        (["produce", PIPELINE, "--count", "0"], 2, "greater than or equal to 1"),
        (["produce", PIPELINE, "--count", "1", "--bad", "2"], 2, "more than the 1 message to send"),
        (["produce", PIPELINE, "--bad", "1", "--bad-share", "0.1"], 2, "not both"),
        (["produce", PIPELINE, "--seconds", "1"], 2, "requires --rate"),
        (["dlq", "show", PIPELINE, "0", "999999"], 1, "no dead letter at partition 0"),
        (["resolve", PIPELINE, "--execute"], 2, "requires --reason"),
        (["verify", PIPELINE, "-o", "xml"], 2, "xml"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_a_wrong_call_gets_one_sentence(endpoints: Endpoints, arguments: list[str], code: int, sentence: str) -> None:
    done = tidegate(*arguments)
    assert done.returncode == code, done
    assert sentence in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
