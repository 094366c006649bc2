"""Databases restored from a dump, and tables adopted there."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from platform_defs.adopt import adopt as adoption
from platform_defs.adopt.adopt import Adoption
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.stack import postgres_server as postgres
from platform_defs.verify.verify import verify
from tests.support.world import World


def proposed(world: World, pipeline: Pipeline) -> Adoption:
    """Return the adoption that `tidegate adopt` shows, verified."""
    decided = adoption.propose(world.endpoints.postgres_url, pipeline.contract)
    assert decided is not None
    adopted = replace(pipeline, contract=adoption.to_verify(pipeline.contract, decided))
    report = verify(adopted, world.endpoints, world.spark)
    return decided.verified(ok=report.ok, digest=report.digest, found=report.explanation)


def adopt(world: World, pipeline: Pipeline) -> Adoption:
    """Execute the adoption as `tidegate adopt --execute` does."""
    decided = proposed(world, pipeline)
    adoption.adopt(world.endpoints.postgres_url, pipeline.contract, decided, "a test", "tester")
    return decided


@contextmanager
def restored(world: World, pipeline: Pipeline) -> Iterator[World]:
    """Dump the ledger and the pipeline's schema, and restore them into a separate database."""
    url = world.endpoints.postgres_url
    other = urlsplit(url)._replace(path=f"/{pipeline.name}").geturl()
    binaries = postgres.binaries()
    world.rows(f"create database {pipeline.name}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            dump = Path(folder, "dump")
            schemas = [f"--schema={name}" for name in ("tidegate", "tidegate_staging", pipeline.name)]
            subprocess.run([binaries / "pg_dump", "-Fc", "-f", dump, *schemas, url], check=True)
            subprocess.run([binaries / "pg_restore", "-d", other, dump], check=True)
        yield replace(world, endpoints=replace(world.endpoints, postgres_url=other))
    finally:
        world.rows(f"drop database {pipeline.name} with (force)")
