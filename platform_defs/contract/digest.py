"""What pipelines are defined by, as a digest: it differs where a run would do something else."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from platform_defs.contract.pipeline import Pipeline
from platform_defs.contract.transform_sources import transform_sources


def definitions_digest(pipelines: Sequence[Pipeline]) -> str:
    """16 hex digits: the contracts as they were loaded, the transforms, and what those import from the project."""
    return digest_of([definition(item) for item in pipelines])


def definition(pipeline: Pipeline) -> tuple[Any, ...]:
    """The contract, wherever its file is; the transform's name; path and content of each of its files."""
    name = pipeline.transform.__qualname__ if pipeline.transform else None
    return replace(pipeline.contract, path=None), name, *transform_sources(pipeline).items()


def transform_digest(pipeline: Pipeline) -> str:
    """16 hex digits: the transform, and what it imports from the project. Empty without one."""
    _, name, *sources = definition(pipeline)
    return digest_of((name, *sources)) if pipeline.transform else ""


def digest_of(known: object) -> str:
    """16 hex digits of what `repr` says of it."""
    return sha256(repr(known).encode()).hexdigest()[:16]
