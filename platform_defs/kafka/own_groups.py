"""The consumer groups that Tidegate commits offsets of, by name. No pipeline reads them: its position is in the ledger.

`tidegate-<pipeline>` shows a pipeline's progress to Kafka's own tools. `tidegate.<pipeline>.asset` records which run of
Dagster has written a topic, so that a run that is retried writes nothing twice (orchestration/written_topics.py).
"""

import re
from collections.abc import Collection

_PROGRESS = "tidegate-"
_RECORD = re.compile(r"tidegate\.(\w+)\.asset(?:\..*)?", re.DOTALL)


def progress_group(pipeline: str) -> str:
    """The group that shows the progress of a pipeline."""
    return f"{_PROGRESS}{pipeline}"


def record_group(pipeline: str) -> str:
    """The group, and the transactional.id, of what writes the topic of a pipeline's contract from Dagster."""
    return f"tidegate.{pipeline}.asset"


def shown_pipeline(group: str, pipelines: Collection[str]) -> str | None:
    """The one of `pipelines` whose progress the group shows."""
    name = group.removeprefix(_PROGRESS)
    return name if name != group and name in pipelines else None


def recording_pipeline(group: str) -> str | None:
    """The pipeline of a contract whose topic Dagster writes, if the group records those runs."""
    found = _RECORD.fullmatch(group)
    return found[1] if found else None
