"""The pipelines, their numbers of messages, and their contracts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from typing import Literal

from platform_defs.settings.settings import PROJECT_ROOT

Kind = Literal["trickle", "busy", "halted", "bad contract", "failing transform"]

PARTITIONS = 10
TRICKLE, BUSY = 1, 200  # messages a second
TEMPLATE = PROJECT_ROOT / "assets" / "web" / "page_views.odcs.yaml"
BROKEN = ("logicalType: timestamp", "logicalType: timestmp")
FAILING = '''"""A transform that always fails."""

from pyspark.sql import DataFrame


def transform(messages: DataFrame) -> DataFrame:
    raise RuntimeError(f"no lookup for {messages.columns[0]}")
'''


@dataclass(frozen=True)
class Planned:
    """A pipeline of the benchmark, named as in its contract."""

    number: int
    kind: Kind

    @property
    def name(self) -> str:
        return f"many_p{self.number:03}"

    @property
    def topic(self) -> str:
        return f"many.p{self.number:03}"

    @property
    def rate(self) -> int:
        """Messages a second."""
        return BUSY if self.kind == "busy" else TRICKLE

    @property
    def measured(self) -> bool:
        """True if its messages have to be read in time: neither halted nor broken."""
        return self.kind in ("trickle", "busy")


def plan(pipelines: int) -> tuple[Planned, ...]:
    """Return the pipelines. One in twenty is busy; one is halted, one has a bad contract, and one's transform fails."""
    odd: tuple[Kind, ...] = ("halted", "bad contract", "failing transform")
    busy = max(1, pipelines // 20)
    return tuple(Planned(number, _kind(number, odd, busy)) for number in range(pipelines))


def _kind(number: int, odd: tuple[Kind, ...], busy: int) -> Kind:
    if number < len(odd):
        return odd[number]
    return "busy" if number < len(odd) + busy else "trickle"


def write_project(folder: Path, planned: tuple[Planned, ...]) -> None:
    """Write a copy of this project into `folder` whose assets are these pipelines: what a user would have."""
    for package in ("platform_defs", "resources"):
        copytree(PROJECT_ROOT / package, folder / package, ignore=ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "dagster.yaml", "workspace.yaml"):
        copy(PROJECT_ROOT / file, folder)
    domain = folder / "assets" / "many"
    domain.mkdir(parents=True)

    for pipeline in planned:
        for name, text in _files(pipeline):
            (domain / name).write_text(text)


def _files(pipeline: Planned) -> Iterator[tuple[str, str]]:
    """Yield each file of a pipeline: its name and its text."""
    name = f"p{pipeline.number:03}"
    text = TEMPLATE.read_text().replace("web_page_views", pipeline.name).replace("web.page_views", pipeline.topic)
    text = text.replace("domain: web", "domain: many").replace("name: page_views", f"name: {name}")
    yield f"{name}.odcs.yaml", text.replace(*BROKEN) if pipeline.kind == "bad contract" else text
    if pipeline.kind == "failing transform":
        yield f"{name}.py", FAILING
