"""What a set of pipelines is defined by, as a digest: it differs where a run would do something else."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from platform_defs.contract.pipeline import Pipeline
from platform_defs.contract.transform_sources import transform_sources


def digest(pipelines: Sequence[Pipeline]) -> str:
    """16 hex digits: the contracts as they were loaded, the transforms, and what those import from the project."""
    known = [
        (
            replace(item.contract, path=None),
            item.transform.__qualname__ if item.transform else None,
            *transform_sources(item).items(),
        )
        for item in pipelines
    ]
    return sha256(repr(known).encode()).hexdigest()[:16]
