"""The consumer groups for which Tidegate commits offsets, by name. Pipelines do not read them: their position is in the
ledger.

`tidegate-<pipeline>` shows a pipeline's progress to Kafka's own tools. `tidegate.<pipeline>.asset` records which run of
Dagster has written a topic, so that a retried run writes nothing twice (producers/written_topics.py).
"""

import re
from collections.abc import Collection

_PROGRESS = "tidegate-"
_RECORD = re.compile(r"tidegate\.(\w+)\.asset(?:\..*)?", re.DOTALL)


def progress_group(pipeline: str) -> str:
    """Return the group that shows the progress of a pipeline."""
    return f"{_PROGRESS}{pipeline}"


def record_group(pipeline: str) -> str:
    """Return the group, and the transactional.id, with which Dagster writes the topic of a pipeline's contract."""
    return f"tidegate.{pipeline}.asset"


def shown_pipeline(group: str, pipelines: Collection[str]) -> str | None:
    """Return the one of `pipelines` whose progress the group shows; None for another group."""
    name = group.removeprefix(_PROGRESS)
    return name if name != group and name in pipelines else None


def recording_pipeline(group: str) -> str | None:
    """Return the pipeline whose topic Dagster writes, if the group records those runs; else None."""
    found = _RECORD.fullmatch(group)
    return found[1] if found else None
