"""`tidegate peek` on a real broker: its start position and output, and that it leaves no trace."""

import json
import signal
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from fastavro import parse_schema, schemaless_writer

from platform_defs.contract import odcs_writer
from platform_defs.contract.model.classified import HIDDEN
from platform_defs.contract.model.contract import Contract, WireFormat
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.messages.chosen_topic import ChosenTopic
from platform_defs.messages.peek import Peek, Start, filter_of
from tests.support.commands import Called, invoke
from tests.support.own_home import TIDEGATE
from tests.support.shipped import ASSETS
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfer, transfers
from tests.unit.registry.registry_double import registry_double, says

ZONE = "2026-11-01T10:00:00+00:00"


Keep = Callable[[Contract], None]


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keep:
    """Return a function that writes a contract into the only folder of contracts."""

    def write(contract: Contract) -> None:
        (tmp_path / contract.domain).mkdir(exist_ok=True)
        path = tmp_path / contract.domain / f"{contract.pipeline}.odcs.yaml"
        path.write_text(odcs_writer.text(replace(contract, tables=contract.tables[:1])))
        path.with_name(f"{contract.pipeline}.py").write_bytes((ASSETS / "bank" / "transfers.py").read_bytes())
        monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))

    return write


@pytest.fixture
def pipeline(world: World, keep: Keep) -> Pipeline:
    """Return a pipeline with four partitions, whose contract is in a file."""
    made = world.new_pipeline()
    keep(made.contract)
    return made


def peek(*arguments: object) -> Called:
    return invoke("peek", *map(str, arguments))


def peek_json(*arguments: object) -> list[dict[str, Any]]:
    """Return the messages that the command shows with -o json."""
    return invoke("peek", *map(str, arguments), "-o", "json", code=0).document["messages"]


def places(messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(one["partition"], one["offset"]) for one in messages]


def groups_of(world: World) -> set[str]:
    found = world.admin().list_consumer_groups(request_timeout=10).result()
    return {group.group_id for group in found.valid}


@pytest.mark.slow
def test_it_starts_where_it_is_told_and_leaves_no_trace(world: World, pipeline: Pipeline) -> None:
    world.send(pipeline, transfers(100))
    before = groups_of(world)
    first = peek_json(pipeline.name)
    assert len(first) == 20
    assert {partition for partition, _ in places(first)} == {0, 1, 2, 3}
    assert sorted(places(peek_json(pipeline.name, "--limit", 1000))) == [(p, o) for p in range(4) for o in range(25)]
    assert sorted(places(peek_json(pipeline.name, "--last", 2))) == [(p, o) for p in range(4) for o in (23, 24)]
    assert places(peek_json(pipeline.name, "--partition", 2, "--offset", 7, "--limit", 2)) == [(2, 7), (2, 8)]
    assert sorted(places(peek_json(pipeline.name, "--partition", 0, "--partition", 3, "--last", 1))) == [
        (0, 24),
        (3, 24),
    ]
    assert places(peek_json(pipeline.name, "--at", "2026-01-01T00:00Z")) == places(first)
    assert peek_json(pipeline.name, "--at", "9999-12-31T00:00Z") == []
    one = first[0]
    assert (one["fields"]["amount"], one["fields"]["occurred_at"], one["dead_letter"]) == ("1.00", ZONE, None)
    assert groups_of(world) == before


def test_timestamps_say_where_to_start(world: World, pipeline: Pipeline) -> None:
    producer = Producer(world.endpoints.kafka_options())
    for number in range(6):
        producer.produce(pipeline.contract.topic, transfer(number), partition=0, timestamp=1_700_000_000_000 + number)
    producer.flush(10)
    found = peek_json(pipeline.name, "--at", "2023-11-14T22:13:20.003+00:00")
    assert places(found) == [(0, 3), (0, 4), (0, 5)]
    assert places(peek_json(pipeline.name, "--at", "2023-11-14T22:13:20.004Z")) == [(0, 4), (0, 5)]


def test_what_would_be_a_dead_letter_is_shown_with_the_reason_and_its_first_bytes(
    world: World, pipeline: Pipeline
) -> None:
    bad = b'{"transfer_id": "T1", ' + b"x" * 100
    world.send(pipeline, [bad, transfer(1, "-1.00"), None], partition=0, headers=[("trace", b"\xff"), ("by", b"me")])
    shown = peek(pipeline.name)
    assert shown.code == 0
    assert "dead letter (decode): InvalidJson" in shown.stdout
    assert "dead letter (check): amount_minimum: amount is -1.00" in shown.stdout
    assert '00000000  7b 22 74 72 61 6e 73 66  65 72 5f 69 64 22 3a 20  {"transfer_id": ' in shown.stdout
    assert "... 58 more bytes" in shown.stdout
    assert "key -, tombstone" in shown.stdout
    assert "header trace  \\xff" in shown.stdout
    assert "3 messages of" in shown.stderr
    document = peek_json(pipeline.name, "--where", "_error is not null")
    assert [one["dead_letter"]["error_class"] for one in document] == ["InvalidJson", "amount_minimum", "NullValue"]
    assert document[0]["value"]["text"] == bad.decode()
    assert (document[2]["tombstone"], document[2]["value"]) == (True, None)


def test_filters_show_what_matches_and_count_what_was_read(world: World, pipeline: Pipeline) -> None:
    world.send(pipeline, transfers(100), keys=[b"k%d" % (n % 10) for n in range(100)])
    found = json.loads(peek(pipeline.name, "--where", "amount > 98", "-o", "json").stdout)
    assert (found["read"], {one["fields"]["amount"] for one in found["messages"]}) == (
        100,
        {"98.97", "99.98", "100.99"},
    )
    assert len(peek_json(pipeline.name, "--key", "k3", "--limit", 100)) == 10
    shown = peek(pipeline.name, "--key", "k3", "--limit", 2)
    assert "2 messages of" in shown.stderr
    assert "--limit 2" in shown.stderr
    refused = peek(pipeline.name, "--where", "amuont > 1")
    assert refused.code == 1
    assert "The columns are transfer_id, debit_account" in refused.stderr


def test_a_missing_topic_partition_or_offset_is_named_with_what_is_there(world: World, pipeline: Pipeline) -> None:
    world.send(pipeline, transfers(8))
    assert "nowhere does not exist" in peek("nowhere").stderr
    assert "has no partition 4; it has partitions 0 to 3" in peek(pipeline.name, "--partition", 4).stderr
    refused = peek(pipeline.name, "--partition", 1, "--offset", 2)
    assert f"offset 2 is not in {pipeline.contract.topic}: partition 1 holds offsets 0 to 1" in refused.stderr
    assert peek(pipeline.name, "--offset", 1, "--last", 1).code == 2
    assert "not a time in ISO 8601" in peek(pipeline.name, "--at", "yesterday").stderr


def transaction(world: World, topic: str, *messages: bytes, commit: bool) -> Producer:
    producer = Producer({**world.endpoints.kafka_options(), "transactional.id": uuid4().hex})
    producer.init_transactions(10)
    producer.begin_transaction()
    for value in messages:
        producer.produce(topic, value, partition=0)
    producer.flush(10)
    if commit:
        producer.commit_transaction(10)
    else:
        producer.abort_transaction(10)
    return producer


@pytest.mark.slow
def test_messages_of_aborted_and_open_transactions_are_not_shown_and_gaps_are_counted(
    world: World, pipeline: Pipeline
) -> None:
    topic = pipeline.contract.topic
    for number in range(4):
        transaction(world, topic, transfer(number), commit=True)
        transaction(world, topic, transfer(100 + number), transfer(200 + number), commit=False)
    still_open = Producer({**world.endpoints.kafka_options(), "transactional.id": uuid4().hex})
    still_open.init_transactions(10)
    still_open.begin_transaction()
    still_open.produce(topic, transfer(300), partition=0)
    still_open.flush(10)
    ids = [one["fields"]["transfer_id"] for one in peek_json(pipeline.name)]
    assert ids == ["T1", "T2", "T3", "T4"]
    last = [one["fields"]["transfer_id"] for one in peek_json(pipeline.name, "--last", 3)]
    assert last == ["T2", "T3", "T4"]
    assert "belong to an open transaction" in peek(pipeline.name, "--partition", 0, "--offset", 20).stderr
    still_open.abort_transaction(10)


def test_classified_values_are_masked_and_bytes_refused(world: World, keep: Keep) -> None:
    pipeline = world.new_pipeline(classified=True)
    keep(pipeline.contract)
    world.send(pipeline, [transfer(0, memo="hush hush"), b'{"memo": "hush hush"', b"hush"], keys=[b"hush"] * 3)
    for found in (peek(pipeline.name), peek(pipeline.name, "-o", "json"), peek(pipeline.name, "--key", "hush")):
        assert found.code == 0
        assert "3 messages" in found.stderr or len(found.document["messages"]) == 3
        assert "hush" not in found.stdout + found.stderr
        assert HIDDEN in found.stdout
    assert "classifies fields" in peek(pipeline.contract.topic, "--raw").stderr
    assert "memo may hold classified values" in peek(pipeline.name, "--where", "memo = 'hush hush'").stderr


def test_a_topic_without_a_contract_and_raw_show_bytes(world: World, pipeline: Pipeline) -> None:
    other = f"other.{uuid4().hex[:8]}"
    world.create_topic(other, 1)
    world.send(replace(pipeline, contract=replace(pipeline.contract, topic=other)), [b"text", b"\0\xff"], partition=0)
    shown = peek(other)
    assert "  text\n" in shown.stdout
    assert f"  00000000  00 ff{' ' * 45}.." in shown.stdout
    assert [one["value"]["bytes"] for one in peek_json(other, "--where", "_value = 'text'")] == [4]
    world.send(pipeline, transfers(1))
    (raw,) = peek_json(pipeline.name, "--raw")
    assert (raw["fields"], raw["value"]["text"]) == (None, transfers(1)[0].decode())


@pytest.mark.slow
def test_it_needs_no_postgres(world: World, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send(pipeline, transfers(4))
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://nobody@127.0.0.1:9/nothing")
    assert len(peek_json(pipeline.name)) == 4


def avro(schema: Any, number: int, document: Any) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    schemaless_writer(buffer, parse_schema(schema), document)
    return struct.pack(">bI", 0, number) + buffer.getvalue()


PROTO = 'syntax = "proto3"; message Transfer { string transfer_id = 1; string currency = 2; }'
AVRO = {
    "type": "record",
    "name": "Transfer",
    "fields": [{"name": "transfer_id", "type": "string"}, {"name": "currency", "type": "string"}],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["avro", "protobuf"])
@pytest.mark.parametrize("ledger", ["a ledger", "no ledger"])
def test_avro_and_protobuf_are_decoded_by_the_registrys_schemas_and_nothing_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: Any, ledger: str
) -> None:
    made = world.new_pipeline()
    fields = tuple(item for item in made.contract.fields if item.name in ("transfer_id", "currency"))
    wire = WireFormat("prefix", f"{made.contract.topic}-value")
    contract = replace(made.contract, format=kind, fields=fields, wire=wire, tables=made.contract.tables[:1])
    good = {
        "avro": avro(AVRO, 7, {"transfer_id": "T1", "currency": "EUR"}),
        "protobuf": struct.pack(">bIb", 0, 7, 0) + b"\x0a\x02T1\x12\x03EUR",
    }[kind]
    world.send(made, [good, struct.pack(">bI", 0, 8) + b"x", b"{}"], partition=0)
    with registry_double() as server:
        document = json.dumps(AVRO) if kind == "avro" else PROTO
        server.answers["/schemas/ids/7"] = says({"schema": document, "schemaType": kind.upper()})
        monkeypatch.setenv("TIDEGATE_REGISTRY_URL", server.url)
        if ledger == "no ledger":
            monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://nobody@127.0.0.1:9/nothing")
        world.ledger.migrate()
        kept = world.rows("select count(*) from tidegate.schema") if ledger == "a ledger" else []
        notes, options = list[str](), world.endpoints.kafka_options()
        chosen = ChosenTopic(contract.topic, contract, hides=False)
        selected = filter_of(chosen, options, None, "currency = 'EUR' or _error is not null", notes.append)
        first, unknown, unframed = Peek(options, selected, Start(), notes.append).messages()
        assert first.fields == {"transfer_id": "T1", "currency": "EUR"}
        assert [one.fault and one.fault.error_class for one in (unknown, unframed)] == ["UnknownSchemaId", "NotFramed"]
        if ledger == "a ledger":
            assert world.rows("select count(*) from tidegate.schema") == kept
            assert notes == []
        else:
            assert "schemas come only from the registry" in notes[0]


def test_follow_shows_new_messages_until_it_is_interrupted(world: World, pipeline: Pipeline) -> None:
    world.send(pipeline, transfers(4))
    command = [*TIDEGATE, "peek", pipeline.name, "--follow", "-o", "json", "--last", "1", "--partition", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        assert json.loads(following.stdout.readline())["offset"] == 0
        world.send(pipeline, transfers(2, start=10), partition=0)
        assert [json.loads(following.stdout.readline())["offset"] for _ in range(2)] == [1, 2]
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 0
        assert "3 messages of" in following.stderr.read()


def test_follow_ends_with_its_limit_and_reads_partitions_that_are_added(
    world: World, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka.admin import NewPartitions

    from platform_defs.messages import peek as module

    monkeypatch.setattr(module, "PARTITIONS_KNOWN", 0.0)
    monkeypatch.setattr(module, "POLL", 0.05)
    topic, options = pipeline.contract.topic, world.endpoints.kafka_options()
    selected = filter_of(ChosenTopic(topic, pipeline.contract, hides=False), options, None, None, print)
    following = Peek(options, selected, Start(), print, limit=3)
    messages = following.follow()
    world.send(pipeline, transfers(1), partition=1)  # before the first message is requested: not new
    admin = world.admin()

    def send_later(values: Sequence[bytes], partition: int) -> None:
        wait_for(lambda: following.position != {}, "it follows")
        world.send(pipeline, values, partition=partition)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(send_later, transfers(2, start=5), 0)
        assert [(one.partition, one.offset) for one in (next(messages), next(messages))] == [(0, 0), (0, 1)]
        admin.create_partitions([NewPartitions(topic, 5)])[topic].result(BOUND)
        pool.submit(world.send, pipeline, transfers(1, start=9), partition=4)
        assert [(one.partition, one.offset) for one in messages] == [(4, 0)]
