"""The definitions of pipelines as a digest: it differs if a run would do something else."""

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from platform_defs.contract.model.pipeline import Pipeline


def definitions_digest(pipelines: Sequence[Pipeline]) -> str:
    """Return 16 hex digits: the contracts as they were loaded, the transforms, and their imports from the project."""
    return digest_of([definition(item) for item in pipelines])


def definition(pipeline: Pipeline) -> tuple[Any, ...]:
    """Return the contract, wherever its file is; the transform's name; path and content of each of its files, as
    imported.
    """
    name = pipeline.transform.__qualname__ if pipeline.transform else None
    return replace(pipeline.contract, path=None), name, *pipeline.sources


def transform_digest(pipeline: Pipeline) -> str:
    """Return 16 hex digits: the transform and its imports from the project. Empty without one."""
    _, name, *sources = definition(pipeline)
    return digest_of((name, *sources)) if pipeline.transform else ""


def digest_of(known: object) -> str:
    """Return 16 hex digits of its `repr`."""
    return sha256(repr(known).encode()).hexdigest()[:16]


def fingerprint_of(shown: object) -> str:
    """Return 12 hex digits of what was shown, as JSON: `--expect` compares them, so that exactly that is changed."""
    return sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:12]
