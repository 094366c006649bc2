"""The schemas that the ledger keeps and that it queries from the registry: with Postgres, and a registry double."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from platform_defs.errors import RegistryAway, SchemasNotGiven
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.published import SchemaCount
from platform_defs.ledger.schema_ledger import Generation, SchemaInUse, SchemaLedger, schema_digest
from platform_defs.registry import comparison, lookup
from platform_defs.registry import schemas as process
from platform_defs.registry.client import AT_ONCE, LARGEST_ID
from platform_defs.registry.lookup import Lookup
from platform_defs.registry.policy import REPLAY, RUN
from platform_defs.registry.schemas import RegistrySchemas
from platform_defs.settings.registry_address import Pace, Registry
from tests.support.waiting import within
from tests.support.world import World
from tests.unit.registry.registry_double import (
    Answer,
    Answered,
    after,
    floods,
    hangs,
    hangs_up,
    refuses,
    registry_double,
    says,
)

GUID = "89791762-2336-4186-9674-299b90a802e2"


@pytest.fixture
def server() -> Iterator[Answered]:
    for remembered in (process._kept, lookup._away, comparison._silent, comparison._compared):
        remembered.clear()
    with registry_double() as answered:
        yield answered


@pytest.fixture
def ledger(world: World) -> SchemaLedger:
    world.ledger.migrate()
    return SchemaLedger(world.endpoints.postgres_url, uuid4().hex)


def schemas(
    ledger: SchemaLedger, server: Answered, *in_use: SchemaInUse, opened: tuple[Generation, ...] = (), **more: Any
) -> RegistrySchemas:
    address = Registry({"url": server.url}, patience=0.5)
    given = Lookup(address, "", "p", RUN, (0.0, 0.0), most_seconds=100)
    return RegistrySchemas(ledger, opened, "now", replace(given, **more), in_use)


def registered(server: Answered, documents: Mapping[str, str]) -> tuple[SchemaInUse, ...]:
    """Add these schemas to the registry by id; return them as SchemaInUse."""
    server.answers |= {f"/schemas/ids/{key}": says({"schema": text}) for key, text in documents.items()}
    return tuple(SchemaInUse(key, schema_digest(WriterSchema(key, "avro", text))) for key, text in documents.items())


@pytest.mark.slow
def test_no_id_is_unknown_that_was_not_asked_for_and_only_some_are_asked_for_again(
    ledger: SchemaLedger, server: Answered
) -> None:
    registered(server, {"5": '"string"'})
    garbage = [str(n) for n in range(100_000, 101_200)]
    found = schemas(ledger, server).find(1, [*garbage, "6", "5"])
    assert [key for key, schema in found.items() if schema] == ["5"]
    assert {f"/schemas/ids/{n}" for n in garbage} < set(server.asked)
    assert len(server.asked) < 1.5 * len(garbage)
    # Each try queries it again, since a registry's ids are small, and so does a request with a late response.
    assert server.asked.count("/schemas/ids/6") >= 3
    assert ledger.known(1, garbage) == {}


def test_a_task_that_asks_for_more_than_a_registry_can_have_says_so(
    ledger: SchemaLedger, server: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MAX_UNKNOWN", 10)
    one = schemas(ledger, server)
    one.find(1, [str(n) for n in range(1, 9)])
    with pytest.raises(
        SchemasNotGiven, match=r"more than 10 different schemas .* tidegate resolve p --batch dead-letters"
    ):
        one.find(1, ["9", "10", "11"])
    assert one.accepting().find(1, ["9", "10", "11"]) == dict.fromkeys(["9", "10", "11"])


def test_a_task_asks_a_slow_registry_no_longer_than_its_share_of_the_batch(
    ledger: SchemaLedger, server: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "AT_A_TIME", AT_ONCE)
    server.otherwise = after(0.1, refuses(404, 40403))
    garbage = [str(n) for n in range(1, 1_001)]
    one = schemas(ledger, server, most_seconds=0.5)
    with pytest.raises(
        SchemasNotGiven, match=r"different schemas .*the registry took .* tidegate resolve p --batch dead-letters"
    ):
        one.find(1, garbage)
    assert len(server.asked) < len(garbage) / 2
    registered(server, {"5": '"string"'})
    for settled in (one.accepting(), replace(one, lookup=replace(one.lookup, policy=REPLAY))):
        server.asked.clear()
        process._kept.clear()
        found = settled.find(1, garbage)
        assert {key for key, schema in found.items() if schema} == {"5"}, "small ids are asked for first"
        assert len(server.asked) < 200, "the rest become dead letters, or stay such"


def test_a_slow_registry_that_has_all_schemas_is_asked_to_the_end(
    ledger: SchemaLedger, server: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "AT_A_TIME", AT_ONCE)
    keys = [str(n) for n in range(1, 41)]
    slow = after(0.1, says({"schema": '"string"'}))
    server.answers = {f"/schemas/ids/{key}": slow for key in keys}
    assert all(schemas(ledger, server, most_seconds=0.2).find(1, keys).values())


@pytest.mark.longest
@pytest.mark.parametrize(
    "answer",
    [
        *[refuses(status) for status in (400, 401, 403, 405, 410, 422, 500, 502, 504)],
        says(b"<html>", 404, kind="text/html"),
        floods,
        pytest.param(hangs, marks=pytest.mark.slow),
    ],
)
def test_one_id_that_is_refused_is_not_a_registry_that_is_away(
    ledger: SchemaLedger, server: Answered, answer: Answer
) -> None:
    registered(server, {"5": '"string"'})
    server.answers["/schemas/ids/6"] = answer
    with pytest.raises(SchemasNotGiven, match=r"answer for schema 6: .*tidegate resolve p --batch dead-letters"):
        schemas(ledger, server).find(1, ["5", "6"])
    accepting = schemas(ledger, server).accepting()
    assert accepting.find(1, ["5", "6", "7"]) == {"5": WriterSchema("5", "avro", '"string"'), "6": None, "7": None}
    server.otherwise = answer
    server.answers = {}
    process._kept.clear()
    for one in (schemas(ledger, server), accepting):
        with pytest.raises(RegistryAway):
            one.find(1, ["6", "8"])


@pytest.mark.parametrize("silence", [pytest.param(hangs, marks=pytest.mark.slow), hangs_up])
def test_a_registry_that_is_gone_costs_its_patience_and_one_question_more(
    ledger: SchemaLedger, server: Answered, silence: Answer
) -> None:
    server.otherwise = silence
    one = schemas(ledger, server)
    for _ in range(4):  # as often as Spark tries a task
        with within(1), pytest.raises(RegistryAway):  # half a second of patience, and as much for the one further query
            one.find(1, ["6"])
    assert server.asked.count(f"/schemas/ids/{LARGEST_ID}") == 4


@pytest.mark.slow
def test_one_id_about_which_a_registry_is_silent_is_waited_for_once(ledger: SchemaLedger, server: Answered) -> None:
    server.answers["/schemas/ids/6"] = hangs
    address = Registry({"url": server.url}, patience=3, pace=Pace(quickly=0.2))
    one = schemas(ledger, server, address=address)
    with within(4), pytest.raises(SchemasNotGiven):
        one.find(1, ["6"])


def test_a_schema_of_another_pipeline_that_is_refused_stops_no_other(ledger: SchemaLedger, server: Answered) -> None:
    in_use = registered(server, {"5": '"string"', "8": '"int"'})
    registered(server, {"9": '"long"'})
    server.answers["/schemas/ids/8"] = refuses(500, 50001)
    assert schemas(ledger, server, *in_use).find(1, ["9"]) == {"9": WriterSchema("9", "avro", '"long"')}
    registered(server, {"5": '"bytes"'})
    switched = schemas(ledger, server, *in_use).switched()
    assert switched is not None
    assert switched.keys == ("5",)


def test_what_is_unknown_is_asked_for_once_a_task_and_what_is_known_once_for_good(
    ledger: SchemaLedger, server: Answered
) -> None:
    registered(server, {"5": '"string"'})
    one = schemas(ledger, server)
    for _ in range(3):
        one.find(1, ["5", "6"])
    assert server.asked.count("/schemas/ids/5") == 1
    assert server.asked.count("/schemas/ids/6") == 3
    one.find(1, ["7"])
    assert server.asked.count("/schemas/ids/7") == 1, "it has waited"
    registered(server, {"6": '"int"'})
    server.asked.clear()
    process._kept.clear()
    found = schemas(ledger, server).find(1, ["5", "6"])
    assert (found["6"], server.asked) == (WriterSchema("6", "avro", '"int"'), ["/schemas/ids/6"])


def test_a_task_waits_for_a_follower_once_however_many_ids_are_unknown(ledger: SchemaLedger, server: Answered) -> None:
    one, started = schemas(ledger, server, pauses=(0.5, 0.5)), time.monotonic()
    one.find(1, ["6"])
    assert time.monotonic() - started >= 1
    with within(0.9):  # each further wait is a second
        for key in range(7, 17):
            one.find(1, [str(key)])


def test_ids_that_no_registry_gives_are_not_asked_for(ledger: SchemaLedger, server: Answered) -> None:
    odd = ["0", str(LARGEST_ID + 1), str(2**32 - 1)]
    assert schemas(ledger, server).find(1, odd) == dict.fromkeys(odd)
    assert server.asked == []


def test_a_replay_asks_once_for_what_the_ledger_lacks(ledger: SchemaLedger, server: Answered) -> None:
    registered(server, {"5": '"string"'})
    replay = schemas(ledger, server, policy=REPLAY, pauses=(50.0, 50.0))
    with within(5):
        assert replay.find(1, ["5", "6"]) == {"5": WriterSchema("5", "avro", '"string"'), "6": None}
    assert sorted(server.asked) == ["/schemas/ids/5", "/schemas/ids/6"]
    assert ledger.known(1, ["5"])
    server.otherwise = refuses(503)
    with pytest.raises(RegistryAway, match=r"Replay again once the registry answers.* stay dead letters"):
        schemas(ledger, server, policy=REPLAY).find(1, ["7"])
    one = schemas(ledger, server, policy=REPLAY, address=None)
    assert one.find(1, ["7"]) == {"7": None}, "no run has known it, and there is no registry to ask"


def test_a_replay_asks_no_registry_for_what_the_ledger_has_or_of_a_registry_that_was_replaced(
    ledger: SchemaLedger, server: Answered
) -> None:
    in_use = registered(server, {"5": '"string"', "6": '"int"'})
    schemas(ledger, server).find(1, ["5"])
    server.asked.clear()
    process._kept.clear()
    replay = schemas(ledger, server, *in_use, policy=REPLAY, address=None)
    assert replay.find(1, ["5"]) == {"5": WriterSchema("5", "avro", '"string"')}
    replay = replace(replay, opened=(Generation(1, None, {}), Generation(2, "now", {0: 10})))
    assert replay.find(1, ["6"]) == {"6": None}
    assert replay.is_familiar()
    assert replay.switched() is None
    assert replay.switched_since([SchemaCount(1, "5", 1)]) is None
    assert server.asked == []


def test_ids_of_a_registry_that_was_replaced_are_not_asked_for(ledger: SchemaLedger, server: Answered) -> None:
    registered(server, {"5": '"string"'})
    one = schemas(ledger, server, opened=(Generation(1, None, {}), Generation(2, "now", {0: 10})))
    assert one.find(1, ["5"]) == {"5": None}
    assert one.find(2, ["5"]) == {"5": WriterSchema("5", "avro", '"string"')}


def test_a_registry_that_was_wiped_is_neither_another_one_nor_unchanged(ledger: SchemaLedger, server: Answered) -> None:
    in_use = registered(server, {"5": '"string"', "6": '"int"'})
    server.answers.clear()
    assert schemas(ledger, server, *in_use).switched() is None
    registered(server, {"5": '"bytes"'})  # it is filled again, within the same minute
    switched = schemas(ledger, server, *in_use).switched()
    assert switched is not None
    assert switched.keys == ("5",)


def test_what_was_compared_is_compared_again_after_a_minute(
    ledger: SchemaLedger, server: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use = registered(server, {"5": '"string"'})
    for _ in range(2):
        assert schemas(ledger, server, *in_use).switched() is None
    assert len(server.asked) == 1
    registered(server, {"5": '"bytes"'})
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert schemas(ledger, server, *in_use).switched() is not None


def test_the_ids_of_a_batch_are_compared_after_it_was_read(ledger: SchemaLedger, server: Answered) -> None:
    in_use = registered(server, {"5": '"string"', "6": '"int"'})
    one = schemas(ledger, server, *in_use)
    one.find(1, ["5", "6"])
    assert one.switched() is None
    registered(server, {"6": '"bytes"'})
    assert one.switched() is None, "within the minute"
    counts = [SchemaCount(1, "5", 7)]
    assert one.switched_since(counts) is None
    found = one.switched_since([*counts, SchemaCount(1, "6", 1)])
    assert found is not None
    assert (found.registry, found.keys) == (ledger.registry, ("6",))
    assert one.switched_since([SchemaCount(0, "6", 1)]) is None, "of a generation before"
    server.answers.clear()
    assert one.switched_since([*counts, SchemaCount(1, "6", 1)]) is None, "gone is not changed"


def test_what_a_rebuilt_registry_says_of_a_new_id_is_not_kept(ledger: SchemaLedger, server: Answered) -> None:
    in_use = registered(server, {"5": '"string"'})
    registered(server, {"5": '"bytes"', "6": '"int"'})
    with pytest.raises(RegistryAway, match="different schemas for ids"):
        schemas(ledger, server, *in_use).find(1, ["6"])
    assert ledger.known(1, ["6"]) == {}


def test_a_registry_is_familiar_by_whatever_the_ledger_keeps_of_it(ledger: SchemaLedger, server: Answered) -> None:
    by_guid = (SchemaInUse(GUID, schema_digest(WriterSchema(GUID, "avro", '"int"'))),)
    server.answers = {f"/schemas/guids/{GUID}": says({"schema": '"int"'})}
    assert schemas(ledger, server, *by_guid).is_familiar()
    assert schemas(ledger, server, *by_guid).switched() is None
    server.answers = {}
    server.answers["/schemas/types"] = says(["AVRO"])
    assert not schemas(ledger, server, *by_guid).is_familiar()
    assert not schemas(ledger, server).is_familiar()


def test_a_registry_is_familiar_by_a_version_of_the_contracts_subject(ledger: SchemaLedger, server: Answered) -> None:
    assert not schemas(ledger, server, subject="t-value").is_familiar()
    server.answers = {"/subjects/t-value/versions": says([3])}
    assert schemas(ledger, server, subject="t-value").is_familiar()
    gone = SchemaInUse("12", "0" * 64)
    assert not schemas(ledger, server, gone, subject="t-value").is_familiar(), "another may have that subject"
    server.answers = {"/subjects/t-value/versions": refuses(403, 40301)}
    assert not schemas(ledger, server, subject="t-value").is_familiar()
    server.otherwise = refuses(503)
    with pytest.raises(RegistryAway):
        schemas(ledger, server, subject="t-value").is_familiar()


def test_a_run_waits_once_for_a_registry_that_does_not_answer(ledger: SchemaLedger, server: Answered) -> None:
    in_use = registered(server, {str(n): '"string"' for n in range(1, 21)})
    server.answers = dict.fromkeys(server.answers, hangs)
    with within(5):
        assert schemas(ledger, server, *in_use).switched() is None
    asked = len(server.asked)
    assert schemas(ledger, server, *in_use).switched() is None
    assert len(server.asked) == asked, "another pipeline of this process"


@pytest.mark.slow
def test_waiting_without_an_answer_makes_impatient_for_a_minute_and_no_longer(
    ledger: SchemaLedger, server: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers = {"/schemas/ids/5": refuses(503)}
    later, real = [0.0], time.monotonic
    address = Registry({"url": server.url}, patience=2)
    monkeypatch.setattr(time, "monotonic", lambda: real() + later[0])
    server.otherwise = refuses(503)
    for second, patience in ((0, 2), (45, 1), (63, 2)):  # the second one, in haste, does not restart the minute
        later[0] = second
        one = schemas(ledger, server, address=address)
        with pytest.raises(RegistryAway, match=f"returned no usable answer for .* within {patience} s"):
            one.find(1, ["5"])


def test_those_in_use_are_the_newest_that_the_ledger_keeps(world: World, ledger: SchemaLedger) -> None:
    ledger.keep(1, [WriterSchema(str(n), "avro", f'"{n}"') for n in range(30)])
    found = ledger.in_use("none yet", 1)
    assert len(found) == 20
    (row,) = world.rows("select sha256 from tidegate.schema where registry = %s and key = '29'", ledger.registry)
    assert ledger.digests(1, ["29", "x"]) == {"29": row["sha256"]}
