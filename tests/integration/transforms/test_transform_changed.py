"""The files of a transform change under a process that runs it: the recorded code is the code that ran."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest

from platform_defs.contract.model.contract import SUFFIX
from platform_defs.contract.model.digest import transform_digest
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.catalogue import with_transform
from platform_defs.engine.batch import drain
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.errors import TransformChanged
from platform_defs.replay.replay import Replay
from tests.support.world import World, transfers

TEXT = """\
import {helper}
from pyspark.sql import functions as F

def transform(messages):
    account = F.lit("{account}")
    columns = "amount", "currency", "occurred_at", "_partition", "_offset"
    return messages.select("transfer_id", account.alias("account"), *columns)
"""


@dataclass(frozen=True)
class Project:
    """A pipeline in files, as a process imports it."""

    root: Path
    contract: Path
    helper: Path
    pipeline: Pipeline

    def write(self, account: str) -> None:
        text = TEXT.format(account=account, helper=self.helper.stem)
        self.contract.with_name(self.contract.name.replace(SUFFIX, ".py")).write_text(text)

    def imported(self) -> Pipeline:
        """Import the pipeline as a new process does."""
        sys.modules.pop(self.helper.stem, None)
        return with_transform(self.pipeline.contract)


@pytest.fixture
def project(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    folder, helper = tmp_path / "assets" / "bank", tmp_path / f"helper_{uuid4().hex}.py"
    folder.mkdir(parents=True)
    helper.write_text("RATE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = world.new_pipeline(transform=None)
    table, path = replace(made.contract.row_table, batch_rules=()), folder / f"transfers{SUFFIX}"
    contract = replace(made.contract, tables=(table,), path=path)
    found = Project(tmp_path, path, helper, Pipeline(contract))
    found.write("old")
    yield found
    sys.modules.pop(helper.stem, None)


def made_by(world: World, pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return the account of each row, and the digest of the transform recorded with its batch."""
    table = pipeline.contract.row_table.name
    batches = f"from {table} r join tidegate.batch b on b.batch_id = r._batch_id"
    found = world.rows(f"select distinct r.account, b.transform_digest {batches}")
    return sorted((row["account"], row["transform_digest"]) for row in found)


@pytest.mark.longest
def test_a_batch_is_recorded_with_the_digest_of_the_code_that_made_its_rows(world: World, project: Project) -> None:
    running = project.imported()
    project.write("new")
    world.send_and_drain(running, transfers(4))
    next_run = project.imported()
    assert transform_digest(running) != transform_digest(next_run)
    assert made_by(world, running) == [("old", transform_digest(running))]
    world.send(running, transfers(4, start=4))
    world.drain(next_run)
    assert made_by(world, running) == sorted([("old", transform_digest(running)), ("new", transform_digest(next_run))])


@pytest.mark.longest
def test_a_replay_is_put_in_place_as_what_it_was_built_by(world: World, project: Project) -> None:
    live = project.imported()
    world.send_and_drain(live, transfers(4))
    project.write("replayed")
    replaying = Replay(project.imported(), world.endpoints, world.spark)

    fingerprints, text_said = list[str](), list[str]()

    def say(text: str) -> None:
        text_said.append(text)
        if "read again" in text:  # built, and not swapped in yet
            fingerprints.extend(row["fingerprint"] for row in world.rows(query, live.name))
            project.write("pulled")

    query = "select fingerprint from tidegate.replay where pipeline = %s"
    replaying.execute(ReplayStart(), "a better account", "a test", say)
    assert made_by(world, live) == [("replayed", transform_digest(replaying.live))]
    assert [row["fingerprint"] for row in world.rows(query, live.name)] == fingerprints
    assert not any("building again" in text for text in text_said)


@pytest.mark.slow
def test_nothing_is_published_once_a_file_that_workers_import_has_changed(world: World, project: Project) -> None:
    running = project.imported()
    world.send_and_drain(running, transfers(4))
    world.send(running, transfers(4, start=4))
    with world.open_run(running) as context:
        project.helper.write_text("RATE = 2\n")
        with pytest.raises(TransformChanged, match=rf"{project.helper.name}, which its transform imports, has changed"):
            list(drain(running, context))
    assert world.ledger.batch_failures(running.name) == 0
    assert len(world.table(running)) == 4
    world.drain(project.imported())
    assert len(world.table(running)) == 8
