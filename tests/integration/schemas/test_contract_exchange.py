"""From a registered schema to a contract and rows, and from a contract to a registered schema, with a real registry."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from typer.testing import CliRunner

from platform_defs.cli.main import app
from platform_defs.contract import odcs_writer
from platform_defs.contract.model.contract import Contract, Format, WireFormat
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.odcs import load
from platform_defs.contract_changes import gate as gates
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.registry.subjects import Subjects
from platform_defs.samples.mixture import samples_of
from platform_defs.schemas.conversion.exchange import import_from_registry, register
from platform_defs.schemas.conversion.importing import Wanted
from platform_defs.schemas.conversion.number_fields import number_fields
from platform_defs.settings import contracts
from platform_defs.settings.contracts import find_contract
from platform_defs.settings.registry_address import Registry
from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection, registry_alone
from platform_defs.verify.verify import verify
from tests.support.kafka.registered import AVRO, PROTOBUF
from tests.support.shipped import ASSETS
from tests.support.world import World

pytestmark = pytest.mark.xdist_group("registry")


@pytest.fixture
def registry(home: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return the embedded registry under a name that the ledger does not know."""
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", uuid4().hex)
    stack.up(registry=True)
    return registry_alone()


def client(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.options["url"]})


def contract_of(kind: Format, compatibility: str = "FULL_TRANSITIVE", **wire: Any) -> Contract:
    """Return the contract of transfers, on its own topic."""
    topic = f"t{uuid4().hex[:8]}"
    contract = find_contract("bank_transfers")
    fields = contract.fields
    if kind == "protobuf":
        fields = tuple(replace(item, number=place) for place, item in enumerate(fields, 1))
    made = WireFormat("prefix", f"{topic}-value", compatibility=compatibility, **wire)
    return replace(contract, topic=topic, format=kind, fields=fields, wire=made)


def imported(subject: str, registry: Registry, folder: Path, **wanted: str) -> Contract:
    """Return the contract imported from a registered schema, as the loader reads it."""
    made = import_from_registry(subject, registry, Wanted(**wanted))
    path = folder / "made.odcs.yaml"
    path.write_text(made.text)
    return load(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_a_contract_is_registered_once_and_a_change_only_where_the_registry_takes_it(
    registry: Registry, kind: Format, tmp_path: Path
) -> None:
    contract = contract_of(kind, "NONE" if kind == "json" else "FULL_TRANSITIVE")
    first = register(contract, registry)
    assert (first.new, first.level) == (True, contract.wire.compatibility)
    assert register(contract, registry) == replace(first, new=False)
    assert [one.number for one in Subjects(registry).versions(contract.wire.subject)] == [1]
    again = imported(contract.wire.subject, registry, tmp_path)
    assert [item.path for item in again.fields] == [item.path for item in contract.fields]
    if kind == "avro":
        fewer = replace(contract, fields=contract.fields[1:])
        for level in ("BACKWARD", "FULL_TRANSITIVE"):
            Subjects(registry).hold_to(contract.wire.subject, level)
            with pytest.raises(
                BadInput, match=r"compatibility: FULL_TRANSITIVE\): .*transfer_id.*Nothing was registered or ch"
            ):
                register(fewer, registry)
            assert Subjects(registry).level(contract.wire.subject) == level
        Subjects(registry).release(contract.wire.subject)
        none = Subjects(registry).level(contract.wire.subject)
        with pytest.raises(BadInput, match=r"Nothing was registered or changed"):
            register(fewer, registry)
        assert Subjects(registry).level(contract.wire.subject) == none
        assert register(contract, registry) == replace(first, new=False)


@pytest.mark.slow
def test_a_schema_of_a_file_is_registered_where_messages_of_it_fit(registry: Registry, tmp_path: Path) -> None:
    contract, file = contract_of("avro"), tmp_path / "transfer.avsc"
    file.write_text(AVRO)
    done = register(contract, registry, file)
    found = Subjects(registry).version(contract.wire.subject)
    assert found is not None
    assert found.schema is not None
    assert (done.key, json.loads(found.schema.document)) == (found.key, json.loads(AVRO))
    file.write_text(AVRO.replace('"debit_account"', '"debit"'))
    with pytest.raises(BadInput, match="debit_account is required by the contract; the schema has no such field"):
        register(contract, registry, file)


def test_an_unknown_subject_is_answered_with_those_like_it_and_a_registry_that_is_away_is_named(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = contract_of("avro")
    register(contract, registry)
    with pytest.raises(BadInput, match=f"did you mean .*{contract.topic}-value"):
        import_from_registry(f"{contract.topic}_value", registry, Wanted())
    away = Registry({"url": "http://user:secret@127.0.0.1:9"})
    with pytest.raises(
        RegistryAway,
        match=r"registry at http://127\.0\.0\.1:9 returned no usable answer .*Nothing was registered or changed",
    ) as no:
        register(contract, away)
    assert "secret" not in str(no.value)


def test_numbers_are_those_of_the_registered_message_else_new_and_comments_stay(
    registry: Registry, tmp_path: Path
) -> None:
    subject = f"t{uuid4().hex[:8]}-value"
    client(registry).register_schema(subject, Schema(PROTOBUF, "PROTOBUF"))
    path = tmp_path / "made.odcs.yaml"
    made = import_from_registry(subject, registry, Wanted(record="bank.Transfer")).text
    bare = made.replace("        customProperties:\n          - {property: fieldNumber, value: 4}\n", "")
    bare = bare.replace("- name: memo", "- {name: more, logicalType: string} # flow\n      - name: memo", 1)
    path.write_text(bare)
    done = number_fields(load(path), None, registry)
    assert [(one.field, one.number) for one in done.assigned] == [("amount", 4), ("more", 8)]
    assert "- {name: more, customProperties: [{property: fieldNumber, value: 8}], logicalType: string} # flow" in (
        path.read_text()
    )
    assert load(path) == done.contract
    assert done.unasked == ("the ledger",)


def test_a_number_that_the_files_history_has_used_is_not_used_again(registry: Registry, tmp_path: Path) -> None:
    contract = contract_of("protobuf")
    register(contract, registry)
    made = import_from_registry(contract.wire.subject, registry, Wanted()).text
    path = tmp_path / "made.odcs.yaml"
    for text in (
        made.replace("value: 7}", "value: 70}"),
        made.replace("          - {property: fieldNumber, value: 7}\n", ""),
    ):
        path.write_text(
            text.replace("logicalType: string\n        customProperties:\n  - name", "logicalType: string\n  - name")
        )
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "m"]):
            subprocess.run([*git, *command], cwd=tmp_path, check=True)
    assert [(one.field, one.number) for one in number_fields(load(path), None, None).assigned] == [("memo", 71)]


def gate_of(contract: Contract, folder: Path, monkeypatch: pytest.MonkeyPatch) -> gates.Checked:
    """Return the result of `tidegate contract check --against registry` for one contract."""
    path = folder / "contracts" / contract.domain / f"{contract.topic}.odcs.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(odcs_writer.text(contract))
    path.with_name(f"{contract.topic}.py").write_bytes((ASSETS / "bank" / "transfers.py").read_bytes())
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(folder / "contracts"))
    (checked,) = gates.gate([], "registry").contracts
    return checked


@pytest.mark.slow
def test_the_gate_refuses_what_a_registry_takes_for_compatible(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = contract_of("avro", record="bank.Transfer")
    assert "has no version yet" in gate_of(contract, tmp_path, monkeypatch).notices[0]
    register(contract, registry)
    assert gate_of(contract, tmp_path, monkeypatch).result == "fits"
    document = json.loads(AVRO.replace('"timestamp-micros"', '"local-timestamp-micros"'))
    document["fields"][4]["type"] = "string"
    assert client(registry).test_compatibility(contract.wire.subject, Schema(json.dumps(document), "AVRO"))
    client(registry).register_schema(contract.wire.subject, Schema(json.dumps(document), "AVRO"))
    checked = gate_of(contract, tmp_path, monkeypatch)
    assert checked.result == "does not fit"
    assert "version 2" in checked.problems[0]
    assert (
        "not used by any message, does not fit: occurred_at is a long (local-timestamp-micros)" in checked.problems[0]
    )
    refused = replace(contract, fields=contract.fields[1:])
    assert any("the registry would not accept" in one for one in gate_of(refused, tmp_path, monkeypatch).problems)
    monkeypatch.setenv("TIDEGATE_REGISTRY_URL", "http://127.0.0.1:9")
    assert gate_of(contract, tmp_path, monkeypatch).result == "not compared"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_made_up_messages_of_an_imported_contract_become_rows_and_their_schema_is_listed(
    world: World, registry: Registry, kind: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints = connection()
    contract = contract_of(kind, "NONE" if kind == "json" else "FULL_TRANSITIVE")
    with pytest.raises(BadInput, match=f"has no schema yet.*tidegate contract register {contract.pipeline}"):
        samples_of(contract, endpoints.registry, 1)
    register(contract, registry)
    made = imported(contract.wire.subject, registry, tmp_path)
    pipeline = Pipeline(made)
    world.create_topic(made.topic)
    samples, _ = samples_of(made, endpoints.registry, 1)
    sent = list(samples.good(200))
    world.send(pipeline, [*(one.value for one in sent), samples.bad(0, sent[0]).value])
    (published,) = replace(world, endpoints=endpoints).drain(pipeline)
    assert (published.rows, published.dead_letters) == (200, 1)
    assert verify(pipeline, endpoints, world.spark).ok
    monkeypatch.setattr(contracts, "find_contract", lambda _: made)
    listed = asked("schema", "list", made.pipeline)
    (schema,) = listed["schemas"]
    assert (schema["version"], schema["messages"], schema["fit"]) == (1, 201, "fits")
    shown = asked("schema", "show", made.pipeline, schema["key"])
    assert shown["source"] == "the ledger"
    assert [one["batch_id"] for one in shown["batches"]] == [published.batch_id]
    assert asked("schema", "fetch", made.pipeline)["new"] == []
    checked = gate_of(made, tmp_path, monkeypatch)
    assert checked.result == "fits", checked.problems


def asked(*arguments: str) -> Any:
    """Return a command's JSON output."""
    done = CliRunner().invoke(app, [*arguments, "-o", "json"])
    assert done.exit_code == 0, done.exception
    return json.loads(done.stdout)
