"""A pipeline: a contract and, if wanted, the transform next to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_defs.contract.model.contract import Contract

if TYPE_CHECKING:  # a command that only reads contracts does not wait for Spark's import
    from collections.abc import Callable

    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Pipeline:
    """A topic on its way into tables: the contract and, if wanted, the transform next to it."""

    contract: Contract
    transform: Callable[[DataFrame], DataFrame] | None = None  # row-local
    sources: tuple[tuple[str, bytes], ...] = ()  # of the transform as it was imported (transform_sources.py)

    @property
    def name(self) -> str:
        return self.contract.pipeline
