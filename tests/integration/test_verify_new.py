"""verify --new compares what was committed since its checkpoint, and knows when to begin again."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_defs.verification.incremental import verify_new
from platform_defs.verification.report import Report
from platform_defs.verification.verify import verify
from resources.endpoints import Endpoints
from tests.integration.test_verify import BAD, Doctor, found, one
from tests.world import World, transfers


class NewDoctor(Doctor):
    """As the doctor, by the incremental check; the checkpoint is put back as well."""

    def verify(self) -> Report:
        return verify_new(self.pipeline, self.world.endpoints, self.world.spark)

    @property
    def _mine(self) -> list[tuple[str, str]]:
        return [*super()._mine, ("tidegate.verified", f"pipeline = '{self.pipeline.name}'")]


def new_bank(world: World, **limits: int) -> NewDoctor:
    """Eight transfers compared before, and four hundred with bad ones that are new."""
    pipeline = world.new_pipeline("accumulate", **limits)
    world.send(pipeline, transfers(8, 9000))
    world.drain(pipeline)
    doctor = NewDoctor(world, pipeline)
    assert doctor.verify().messages == 8
    world.send(pipeline, transfers(400))
    world.send(pipeline, BAD, partition=1)
    world.drain(pipeline)
    return doctor


@pytest.fixture(scope="module")
def bank(endpoints: Endpoints, spark: Callable[[], Any]) -> NewDoctor:
    return new_bank(World(endpoints, spark))


def new(where: str = "") -> str:
    """A row of the newest batch."""
    return f"(SELECT ctid FROM {{table}} {where} ORDER BY _batch_id DESC, _partition, _offset LIMIT 1)"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM {table} WHERE ctid = " + new(), {"lost": 1}),
        ("INSERT INTO {table} SELECT * FROM {table} WHERE ctid = " + new(), {"duplicated": 1}),
        ("UPDATE {table} SET amount = amount + 0.01 WHERE ctid = " + new(), {"wrong": 1}),
        ("UPDATE {table} SET _offset = _offset + 1000 WHERE ctid = " + new(), {"lost": 1, "duplicated": 1}),
        ("UPDATE {table} SET _batch_id = _batch_id + 1000000 WHERE ctid = " + one(), {"duplicated": 1}),
        ("DELETE FROM tidegate.dead_letter WHERE pipeline = {name} AND error_class = 'InvalidJson'", {"lost": 1}),
        ("UPDATE {other} SET balance = balance + 1 WHERE account = 'A00001'", {"wrong": 1}),
        ("UPDATE {other} SET account = 'A99999' WHERE account = 'A00001'", {"wrong": 2}),
        (
            "UPDATE tidegate.source_position SET next_offset = next_offset + 5 "
            "WHERE pipeline = {name} AND partition = 0",
            {"uncovered": 5, "lost": 5},
        ),
    ],
)
def test_what_is_done_to_what_is_new_is_found(bank: NewDoctor, statement: str, expected: dict[str, int]) -> None:
    report = bank.after(statement)
    assert found(report) == expected
    assert report.new is not None
    assert report.new.until_batch == report.new.after_batch, "the checkpoint stays"


def test_only_what_is_new_is_compared_and_the_checkpoint_moves_once(bank: NewDoctor) -> None:
    older = bank.after("UPDATE {table} SET amount = amount + 0.01 WHERE ctid = " + one())
    assert older.ok, "a row of an older batch is for the whole comparison to see"
    report = bank.verify()
    assert report.ok, report
    assert (report.messages, report.rows, report.dead_letters) == (405, 800, 5)
    again = bank.verify()
    assert (again.ok, again.messages) == (True, 0)
    assert "no batch that was not compared before" in again.explanation
    assert verify(bank.pipeline, bank.world.endpoints, bank.world.spark).ok
