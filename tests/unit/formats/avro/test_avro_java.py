"""Java's own Avro as a third reader: it agrees with ours on valid messages, and on damaged ones that ours accept."""

import json
import random
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from platform_defs.stack.java import find_java
from tests.unit.formats.avro.avro_messages import Case, Outcome, Readers, cases, contract_of, encode
from tests.unit.formats.avro.test_avro_agreement import mutated

JARS = Path(pyspark.__file__).parent / "jars" / "*"
OF_VALUES = {"NotFinite", "NulCharacter", "DuplicateKey"}  # a JSON document cannot hold it, though Avro can
PLAIN = {"string": "string", "int": "integer", "long": "integer", "boolean": "boolean", "double": "double"}


@dataclass(frozen=True)
class Asked:
    """Messages of one schema, good ones first, with our readers' outcomes."""

    schema: Any
    kinds: dict[str, str]  # the columns' types
    messages: list[bytes]
    outcomes: list[Outcome]
    good: int


@pytest.mark.longest
def test_java_reads_what_we_read() -> None:
    asked, rng = list[Asked](), random.Random(1)

    @settings(
        max_examples=400,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(cases(), st.data())
    def collect(case: Case, data: st.DataObject) -> None:
        values = data.draw(st.lists(case.values, min_size=1, max_size=6))
        asked.append(read_by_us(without_logical_types(case.schema), values, rng))

    collect()
    answers = java([(item.schema, item.messages) for item in asked])
    compared = [validated(item, answer) for item, answer in zip(asked, answers, strict=True) if answer is not None]
    assert sum(good for good, _ in compared) > 500
    assert sum(others for _, others in compared) > 500


def read_by_us(schema: Any, values: Sequence[Any], rng: random.Random) -> Asked:
    """Return the messages, and those with wrong bytes that are still rows."""
    kinds = {item["name"]: column(item["type"]) for item in schema["fields"]}
    readers = Readers(contract_of(kinds), schema)
    good = [encode(schema, value) for value in values]
    spoiled = [mutated(message, rng) for message in good for _ in range(30)]
    rows = [message for message, row in zip(spoiled, readers.single(spoiled), strict=True) if isinstance(row, tuple)]
    return Asked(schema, kinds, good + rows, readers.decoded(good + rows), len(good))


def column(of: Any) -> str:
    """Return the column's type for a scalar or an array of scalars; json for all else."""
    if isinstance(of, dict) and of["type"] == "array" and str(of["items"]) in PLAIN:
        return f"array<{PLAIN[of['items']]}>"
    return PLAIN.get(str(of), "json")


def validated(asked: Asked, answer: list[Any]) -> tuple[int, int]:
    """Assert that Java agrees; return how many good and other messages were compared."""
    compared = [0, 0]
    for number, (ours, javas) in enumerate(zip(asked.outcomes, answer, strict=True)):
        is_good = number < asked.good
        if isinstance(ours, str):
            assert ours in OF_VALUES
        elif javas is not None:
            assert {name: plain(name, value, asked) for name, value in zip(asked.kinds, ours, strict=True)} == javas
            compared[not is_good] += 1
        else:
            assert not is_good
    return compared[0], compared[1]


def plain(name: str, value: Any, asked: Asked) -> Any:
    """Return the value as JSON has it."""
    return json.loads(value) if asked.kinds[name] == "json" and value is not None else value


def without_logical_types(schema: Any) -> Any:
    """Return the schema without logical types: Java reads numbers and bytes as they are."""
    if isinstance(schema, list):
        return [without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_logical_types(value) for key, value in schema.items() if key != "logicalType"}


def java(asked: Sequence[tuple[Any, Sequence[bytes]]]) -> list[Any]:
    """Return Java's result for each message, by schema; None for a message or schema that it refuses."""
    lines = (
        json.dumps({"schema": json.dumps(schema), "messages": [b64encode(message).decode() for message in messages]})
        for schema, messages in asked
    )
    command = [find_java(), "-cp", str(JARS), str(Path(__file__).with_name("AvroInJava.java"))]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=200)
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java has no compiler: a JDK is needed")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]
