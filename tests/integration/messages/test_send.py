"""`tidegate send` on a real broker and registry: others read what was sent, and refused messages are not sent."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from platform_defs.producers.transactions import Transactions
from platform_defs.producers.unsent.ledger import UnsentLedger
from tests.support.kafka import secured_kafka
from tests.support.kafka.sending import Desk
from tests.support.waiting import wait_for
from tests.support.world import World, transfer

EXAMPLE = {"transfer_id": "T1", "debit_account": "A00001", "credit_account": "A00002", "amount": "12.50"}
EXAMPLE |= {"currency": "EUR", "occurred_at": "2026-11-01T10:00:00Z", "memo": "by hand"}
CUSTOMER = {"customer_id": "C1", "name": "Ada", "tier": "gold", "signed_up": "2026-11-01"}
BAD = transfer(1, currency="XXX").decode()


@pytest.fixture
def desk(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    folder = tmp_path / "contracts"
    folder.mkdir()
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(folder))
    world.ledger.migrate()
    return Desk(folder, world, f"t{uuid4().hex[:8]}")


def test_each_value_is_a_message_and_the_answer_says_where_it_is(desk: Desk) -> None:
    desk.declare()
    desk.make_topic()
    one, two = json.dumps(EXAMPLE), transfer(2).decode()
    message = desk.send(
        one, two, "--partition", "2", "--key", "A1", "--header", "trace=é", "--header", "trace=b=c", "-o", "json"
    )
    assert message.document | {"messages": []} == {
        "topic": desk.topic,
        "pipeline": desk.name,
        "preset": "asynchronous",
        "partitioner": "keyed-crc32",
        "checked": True,
        "messages": [],
        "sent": 2,
        "failed": 0,
        "refused": None,
        "unsent": 0,
    }
    found = desk.log()
    assert [(m.key(), m.value(), m.partition()) for m in found] == [(b"A1", one.encode(), 2), (b"A1", two.encode(), 2)]
    named = [[name for name, _ in m.headers()] for m in found]
    assert named == [["trace", "trace", "tidegate-id"]] * 2
    assert found[0].headers()[:2] == [("trace", "é".encode()), ("trace", b"b=c")]
    listed = message.document["messages"]
    assert [(m["value"], m["partition"], m["offset"], m["error"]) for m in listed] == [(1, 2, 0, None), (2, 2, 1, None)]
    assert listed[0]["timestamp"].endswith("+00:00")
    person = desk.send(one, "--no-ids", to=desk.topic)
    assert "value 1: partition " in person.stdout
    assert f"1 message sent to {desk.topic}, checked against the contract of {desk.name}" in person.stdout
    assert [m.headers() for m in desk.log()].count(None) == 1


def test_nothing_is_sent_where_one_value_would_be_a_dead_letter(desk: Desk, tmp_path: Path) -> None:
    desk.declare()
    desk.make_topic()
    message = desk.send(json.dumps(EXAMPLE), BAD, "{", code=1).stderr
    assert "value 2 would be a dead letter (currency_enum): currency is XXX; the contract requires" in message
    assert "value 3 would be a dead letter (InvalidJson)" in message
    assert "Nothing was sent; --unchecked sends bytes as they are" in message
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join([*[json.dumps(EXAMPLE).encode()] * 1_500, b"", BAD.encode()]))
    assert "line 1502 would be a dead letter (currency_enum)" in desk.send("--file", str(file), code=1).stderr
    assert desk.log() == []


def test_a_classified_value_is_not_quoted_where_it_is_refused(desk: Desk) -> None:
    desk.declare("crm/customers")
    desk.make_topic()
    message = desk.send(json.dumps(CUSTOMER | {"email": "nobody knows"}), "--key", "C1", code=1).stderr
    assert "email breaks email_pattern" in message
    assert "nobody knows" not in message
    assert "dlq show" not in message


def test_lines_of_a_file_and_of_standard_input_are_messages(desk: Desk, tmp_path: Path) -> None:
    desk.declare()
    desk.make_topic()
    lines = [transfer(number) for number in range(2_500)]
    file = tmp_path / "lines"
    file.write_bytes(b"\r\n".join(lines))
    answer = desk.send("--file", str(file), "-o", "json").document
    assert (answer["sent"], [m["value"] for m in answer["messages"]]) == (2_500, list(range(1, 2_501)))
    assert sorted(m.value() for m in desk.log()) == sorted(lines)
    assert desk.send(given=b"\n".join(lines[:3]) + b"\n\n").stdout.count("line ") == 3
    assert (
        desk.send("-", given=b"").stdout
        == f"0 messages sent to {desk.topic}, checked against the contract of {desk.name}\n"
    )
    assert len(desk.log()) == 2_503


def test_standard_input_is_sent_up_to_the_line_that_is_refused(desk: Desk) -> None:
    desk.declare()
    desk.make_topic()
    message = desk.send("-o", "json", given=b"\n".join([transfer(1), transfer(2), BAD.encode(), transfer(3)]), code=1)
    assert (message.document["sent"], message.document["refused"]["value"]) == (2, 3)
    assert message.document["refused"]["error_class"] == "currency_enum"
    assert "line 3 would be a dead letter (currency_enum)" in message.stderr
    assert sorted(m.value() for m in desk.log()) == [transfer(1), transfer(2)]


@pytest.mark.slow
def test_a_line_is_sent_while_the_next_one_is_waited_for(desk: Desk) -> None:
    desk.declare()
    desk.make_topic()
    command = [sys.executable, "-c", "from platform_defs.cli.main import main; main()", "send", desk.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in (1, 2):
            process.stdin.write(transfer(number) + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith(b"line %d: partition " % number)
        process.stdin.close()
        assert process.wait(30) == 0


def test_unchecked_bytes_are_sent_as_they_are(desk: Desk) -> None:
    desk.declare()
    desk.make_topic()
    assert "unchecked (--unchecked)" in desk.send("no JSON", "", "--unchecked").stdout
    assert sorted(m.value() for m in desk.log()) == [b"", b"no JSON"]


def test_without_a_contract_bytes_are_sent_as_they_are_and_the_answer_says_so(desk: Desk) -> None:
    desk.make_topic()
    (desk.folder / "web").mkdir()
    broken = desk.folder / "web" / "broken.odcs.yaml"
    broken.write_text(f"physicalName: {desk.topic}\n{{")
    assert "broken.odcs.yaml" in desk.send("any text", to=desk.topic, code=1).stderr
    assert "unchecked: no contract reads it" in desk.send("any text", "--unchecked", to=desk.topic).stdout
    broken.write_text("{")
    message = desk.send("any text", "--key", "k", to=desk.topic)
    assert "unchecked: no contract reads it" in message.stdout
    answer = desk.send("any text", "--key", "k", "-o", "json", to=desk.topic).document
    assert (answer["pipeline"], answer["checked"], answer["unsent"]) == (None, False, 0)
    assert sorted(str(m.key()) for m in desk.log()) == ["None", "b'k'", "b'k'"]
    assert {(m.value(), m.headers() is None) for m in desk.log()} == {(b"any text", True)}


def test_a_tombstone_has_a_key_and_no_value(desk: Desk) -> None:
    desk.declare("crm/customers")
    desk.make_topic()
    assert desk.send("--null", "--key", "C1", "-o", "json").document["sent"] == 1
    assert [(m.key(), m.value()) for m in desk.log()] == [(b"C1", None)]
    keyless = desk.send("{}", code=1).stderr
    assert "an upsert table needs one, since the key decides the row; set one with --key" in keyless
    assert "--null requires --key" in desk.send("--null", code=2).stderr


def test_a_tombstone_for_a_table_that_appends_is_refused(desk: Desk) -> None:
    desk.declare()
    desk.make_topic()
    assert "would be a dead letter (NullValue)" in desk.send("--null", "--key", "k", code=1).stderr
    desk.send("--null", "--key", "k", "--unchecked")
    assert [(m.key(), m.value()) for m in desk.log()] == [(b"k", None)]


def test_a_topic_that_is_missing_is_not_created(desk: Desk) -> None:
    desk.declare()
    assert "To create it: tidegate topics apply" in desk.send("{}", code=1).stderr
    assert f"Did you mean {desk.name}?" in desk.send("{}", to=f"{desk.name}x", code=1).stderr
    assert desk.topic not in desk.world.admin().list_topics(timeout=10).topics


@pytest.mark.longest
def test_a_topic_is_not_created_where_brokers_create_them(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    creating = f"{secured_kafka.PROPERTIES}auto.create.topics.enable=true\n"
    monkeypatch.setattr(secured_kafka, "PROPERTIES", creating)
    with secured_kafka.secured_kafka(tmp_path_factory.mktemp("creating")) as kafka:
        options = kafka.options(secured_kafka.ADMIN)
        for name, value in kafka.environment(options).items():
            monkeypatch.setenv(name, value)
        assert "topic nowhere does not exist" in desk.send("x", to="nowhere", code=1).stderr
        admin = AdminClient({**options})
        assert "nowhere" not in admin.list_topics(timeout=10).topics
        admin.list_topics("elsewhere", timeout=10)  # as any other client
        wait_for(lambda: "elsewhere" in admin.list_topics(timeout=10).topics, "the brokers create topics")


def test_what_cannot_be_sent_is_said_before_anything_is(desk: Desk) -> None:
    desk.declare()
    desk.make_topic()
    value = json.dumps(EXAMPLE)
    assert "the last of its 4 partitions is 3" in desk.send(value, "--partition", "4", code=1).stderr
    assert "there is no preset 'sync'" in desk.send(value, "--preset", "sync", code=1).stderr
    assert "--header is NAME=VALUE" in desk.send(value, "--header", "x", code=2).stderr
    assert "not both" in desk.send(value, "--file", "x", code=2).stderr
    assert "it cannot be read: No such file" in desk.send("--file", "nowhere", code=1).stderr
    desk.declare(name=f"{desk.name}b")
    assert f"give one of them instead: {desk.name}" in desk.send(value, to=desk.topic, code=1).stderr
    assert desk.log() == []


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["fire_and_forget", "synchronous", "transactional"])
def test_any_preset_sends(desk: Desk, preset: str) -> None:
    desk.declare()
    desk.make_topic()
    answer = desk.send(transfer(1).decode(), transfer(2).decode(), "--preset", preset, "-o", "json").document
    assert (answer["preset"], answer["sent"]) == (preset, 2)
    assert [m["offset"] is None for m in answer["messages"]] == [preset == "fire_and_forget"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["asynchronous", "transactional"])
def test_messages_that_are_not_acknowledged_are_named_and_kept(desk: Desk, preset: str) -> None:
    desk.declare()
    desk.world.create_topic(desk.topic, 4, {"max.message.bytes": "1000"})
    large = transfer(2, more=os.urandom(1_500).hex()).decode()  # as in a column that no table reads
    text = desk.send(transfer(1).decode(), large, "--preset", preset, "-o", "json", code=1)
    whole = preset == "transactional"
    answer = text.document
    assert (answer["sent"], answer["failed"], answer["unsent"]) == ((0, 2, 2) if whole else (1, 1, 1))
    assert answer["messages"][1]["error"] == "MSG_SIZE_TOO_LARGE"
    assert f"({'values 1 to 2' if whole else 'value 2'}): " in text.stderr
    assert f"tidegate unsent send {desk.name}" in text.stderr
    counts = UnsentLedger(desk.world.endpoints.postgres_url).counts(desk.name, None, None)
    assert sum(count.messages for count in counts) == answer["unsent"]


def test_ctrl_c_in_a_commit_acknowledges_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delivery reports come before the transaction is committed."""
    desk.declare()
    desk.make_topic()

    def interrupted(self: Any) -> None:
        self._client.flush(20)
        raise KeyboardInterrupt

    monkeypatch.setattr(Transactions, "_commit", interrupted)
    message = desk.send(transfer(1).decode(), "--preset", "transactional", code=130)
    assert "offset" not in message.stdout
    assert "0 messages sent" in message.stdout


def test_what_is_not_acknowledged_without_a_contract_is_named_as_not_kept(desk: Desk) -> None:
    desk.world.create_topic(desk.topic, 4, {"max.message.bytes": "1000"})
    message = desk.send("x", "y" * 2_000, "--preset", "synchronous", to=desk.topic, code=1)
    assert "1 message sent" in message.stdout
    assert "(value 2): " in message.stderr
    assert "They were not saved: send them again" in message.stderr
