"""Pipelines to replay, their replays, and the resulting tables."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.replay.replacement import Shown
from platform_defs.replay.replay import Replay
from platform_defs.verify.verify import verify
from tests.integration.verify.test_verify import view
from tests.support.world import World, transfers


def doubled(messages: DataFrame) -> DataFrame:
    """Transform unlike the shipped one: twice the amount per posting, and none for every other transfer."""
    twice = (F.col("amount") * 2).cast("decimal(18,2)")
    sides = [
        F.struct(F.col(f"{side}_account").alias("account"), amount.alias("amount"))
        for side, amount in (("debit", -twice), ("credit", twice))
    ]
    kept = messages.where(F.col("_offset") % 2 == 0)
    return kept.select("transfer_id", F.inline(F.array(*sides)), "currency", "occurred_at", "_partition", "_offset")


def bank(world: World, count: int = 40, batches: int = 2) -> Pipeline:
    """Return a pipeline that has read this many batches, with one bad message in each."""
    pipeline = world.new_pipeline()
    for number in range(batches):
        world.send_and_drain(pipeline, [*transfers(count, number * count), b"not json"])
    return pipeline


def views(world: World, batches: int = 3) -> Pipeline:
    """Return a pipeline with only an append table."""
    pipeline = world.new_pipeline("append", transform=None)
    for number in range(batches):
        world.send_and_drain(pipeline, [view(number * 8 + n) for n in range(8)])
    return pipeline


def shown(world: World, pipeline: Pipeline, start: str = "earliest") -> Shown:
    found = Replay(pipeline, world.endpoints, world.spark)
    return found.show(found.first_batch(ReplayStart.parse(start)), print)


def execute(
    world: World, pipeline: Pipeline, start: str = "earliest", decide_again: frozenset[int] = frozenset()
) -> Shown:
    replay = Replay(pipeline, world.endpoints, world.spark, decide_again)
    return replay.execute(ReplayStart.parse(start), "a test", "tester", print)


def counts(found: Shown) -> dict[str, tuple[int, int, int, int]]:
    """Return, by table, the rows before and after, those that go and those that come. A changed row goes and comes."""
    return {
        item.name.partition(".")[2] or item.name: (
            item.live,
            item.rebuilt,
            item.only_live + item.changed + item.new_columns,
            item.only_rebuilt + item.changed + item.new_columns,
        )
        for item in found.differences
    }


def exact(world: World, pipeline: Pipeline) -> str:
    """Return verify's digest, and assert that the tables and the pipeline's totals are exact."""
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report.explanation
    (counted,) = world.rows(
        "select p.messages_total = sum(b.messages) and p.rows_total = sum(b.rows) as agree from tidegate.pipeline as p"
        " join tidegate.batch as b on b.pipeline = p.name where name = %s and replaced_by is null group by p.name",
        pipeline.name,
    )
    assert counted["agree"]
    return report.digest


def nothing_left(world: World, pipeline: Pipeline) -> bool:
    """Return True if nothing of a building pipeline is left."""
    name = f"{pipeline.name}~replay"
    schemas = world.rows("select 1 from pg_namespace where nspname = %s", f"{pipeline.name}__replay")
    return not schemas and not world.rows("select 1 from tidegate.pipeline where name = %s", name)
