"""A field whose timestamps are milliseconds since the epoch: rows, dead letters, and verify's report of both."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.odcs import load
from platform_defs.verify.verify import verify
from tests.support.world import World, renamed
from tests.unit.contract.contract_mistakes import GOOD

MOMENT = datetime(2026, 11, 1, 10, 0, 0, 250_000, tzinfo=UTC)
FIELD, COLUMN = "      - name: ordered_at\n", "      - {name: kind, logicalType: string}\n"
UNIT = "        customProperties: [{property: unit, value: %s}]\n"


def new_pipeline(world: World, folder: Path, unit: str) -> Pipeline:
    text = GOOD.replace(FIELD, FIELD + UNIT % unit).replace(
        COLUMN, f"{COLUMN}      - {{name: ordered_at, logicalType: timestamp}}\n", 1
    )
    path = folder / "shop" / "orders.odcs.yaml"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    pipeline = Pipeline(renamed(load(path), f"t{token_hex(5)}"), None)
    world.create_topic(pipeline.contract.topic, 2)
    return pipeline


def order(number: int, ordered_at: str) -> bytes:
    return f'{{"order_id":"O{number}","price":"1.00","ordered_at":{ordered_at}}}'.encode()


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "ticks"), [("ms", 1_000), ("ns", 1_000_000_000)])
def test_numbers_become_timestamps_and_verify_reads_them_too(
    world: World, tmp_path: Path, unit: str, ticks: int
) -> None:
    pipeline = new_pipeline(world, tmp_path, unit)
    first = (MOMENT - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * ticks // 1_000_000
    good = [order(number, str(first + number * ticks)) for number in range(6)]
    world.send(pipeline, [*good, order(6, "null"), order(7, "1.5"), order(8, '"2026-11-01T10:00:00Z"')], partition=0)
    world.send_and_drain(pipeline, [order(9, "9" * 25)], partition=1)
    rows = world.rows(f"select order_id, ordered_at from {pipeline.contract.row_table.name} order by order_id")
    assert [row["ordered_at"] for row in rows] == [*(MOMENT + timedelta(seconds=n) for n in range(6)), None]
    found = {(one["partition"], one["offset"]): one["error_class"] for one in world.dead_letters(pipeline)}
    assert found == {(0, 7): "WrongType", (0, 8): "WrongType", (1, 0): "OutOfRange"}
    report = verify(pipeline, world.endpoints, world.spark)
    assert (report.ok, report.to_json()["rows"]) == (True, 7)
    later = "ordered_at = ordered_at + interval '1 millisecond'"
    world.rows(f"update {pipeline.contract.row_table.name} set {later} where order_id = 'O3'")
    assert not verify(pipeline, world.endpoints, world.spark).ok
