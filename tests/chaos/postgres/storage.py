"""Postgres' disk: full, or restored to an earlier state."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import LedgerAway
from platform_defs.stack import postgres_server as postgres
from platform_defs.stack import state
from platform_defs.stack.state import Server
from tests.chaos.moments import Intruder
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.world import World, transfers

FULL = "/dev/full"  # Linux' own: a write to it fails with: no space is left on the device


@scenario(FaultClass.POSTGRES_DOWN)
def disk_full_in_COPY(chaos: Chaos) -> Verdict:
    """The tasks' COPY fails as often as Spark tries; the run reports it. With free space, the next one continues."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    world.send(pipeline, [*transfers(80, start=8), b"not json"])
    with ExitStack() as disk:
        fill = Intruder("before_stage", lambda number: disk.enter_context(_full(world, _truncated(world, number))))
        with pytest.raises(LedgerAway, match="No space left on device"):
            fill.drain(world, pipeline)
    assert (len(world.table(pipeline)), world.dead_letters(pipeline)) == (16, [])
    return chaos.judge(pipeline, fill.fired, "the run fails, the next one continues")


@scenario(FaultClass.POSTGRES_DOWN)
def disk_full_in_publish(chaos: Chaos) -> Verdict:
    """Rolled back as a whole: no row is blamed. With free space again, the next run publishes the same batch."""
    world, pipeline = chaos.world, chaos.world.new_pipeline()
    world.drain(pipeline)  # the tables are created
    world.send(pipeline, transfers(80))
    for table in pipeline.contract.tables:
        with _full(world, table.name), pytest.raises(LedgerAway, match="No space left on device"):
            world.drain(pipeline)
        assert set(world.position(pipeline).values()) == {0}
        assert world.table(pipeline) + world.table(pipeline, 1) + world.dead_letters(pipeline) == []
    return chaos.judge(pipeline, len(pipeline.contract.tables), "rolled back, then published")


@scenario(FaultClass.POSTGRES_RESTORED, representative=True)
def Postgres_restored_to_an_earlier_moment(chaos: Chaos) -> Verdict:
    """Rows and offsets go back together, and what is read again gives the same tables."""
    with _server_of_its_own() as server:
        world = server.start(chaos.world)
        pipeline = world.new_pipeline(dead_letter_minimum=100)
        _more(world, pipeline, 0)
        then = _all_of(world, pipeline)
        server.stop()
        server.back_up()
        world = server.start(world)
        for start in (100, 200):
            _more(world, pipeline, start)
        now = _all_of(world, pipeline)
        assert len(now[0]) == 3 * len(then[0])
        server.stop()
        server.restore()
        world = server.start(world)
        assert _all_of(world, pipeline) == then
        assert sum(batch.messages for batch in world.drain(pipeline)) == 122
        assert _all_of(world, pipeline) == now
        return replace(chaos, world=world).judge(
            pipeline, 1, "they went back together; read again, the tables are the same"
        )


def _more(world: World, pipeline: Pipeline, start: int) -> None:
    world.send(pipeline, [*transfers(60, start=start), b"not json"])
    world.drain(pipeline)


def _all_of(world: World, pipeline: Pipeline) -> tuple[list[Any], ...]:
    """Return rows, sums, positions and dead letters."""
    letters = [(d["partition"], d["offset"], d["value"], d["error_class"]) for d in world.dead_letters(pipeline)]
    return world.table(pipeline), world.table(pipeline, 1), [world.position(pipeline)], letters


def _truncated(world: World, staging_id: int) -> str:
    """Return the staging table of an attempt, truncated: an earlier attempt has used it."""
    table = world.staging_table(staging_id)
    world.rows(f"TRUNCATE {table}")
    return table


@contextmanager
def _full(world: World, table: str) -> Iterator[None]:
    """While the block runs, replace the file of `table`, which must be empty, by the full device."""
    (place,) = world.rows("select current_setting('data_directory') as data, pg_relation_filepath(%s) as file", table)
    path = Path(place["data"], place["file"])
    aside = path.with_name(f"{path.name}.aside")
    assert path.stat().st_size == 0, f"{table} is not empty"
    world.rows("CHECKPOINT")  # flush what is left of the file: this device cannot be flushed
    path.rename(aside)
    path.symlink_to(FULL)
    try:
        yield
    finally:
        aside.replace(path)


@dataclass
class OwnServer:
    """A Postgres beside the session's, so that no other test sees it restored."""

    home: Path
    kept: Server = field(default_factory=Server)

    def start(self, world: World) -> World:
        """Start it; return `world` with this database in place of the session's."""
        self.kept = postgres.start(self.home, self.kept, lambda _: None)
        assert self.kept.port is not None
        url = state.postgres_url(self.home, self.kept.port)
        return replace(world, endpoints=replace(world.endpoints, postgres_url=url))

    def stop(self) -> None:
        postgres.stop(self.home)

    def back_up(self) -> None:
        subprocess.run(["cp", "-a", state.postgres_data(self.home), self._backup], check=True)

    def restore(self) -> None:
        shutil.rmtree(state.postgres_data(self.home))
        self._backup.rename(state.postgres_data(self.home))

    @property
    def _backup(self) -> Path:
        return state.postgres_data(self.home).with_name("backup")


@contextmanager
def _server_of_its_own() -> Iterator[OwnServer]:
    with tempfile.TemporaryDirectory(prefix="tidegate-restored-") as folder:
        server = OwnServer(Path(folder))
        try:
            yield server
        finally:
            server.stop()
