"""Findings about the pipelines: halted, stopped by a blocking check, failing, or on a topic that was created again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from platform_defs.doctor.findings.finding import Finding, error, warning, well
from platform_defs.errors.words import plural

AREA = "pipelines"


@dataclass(frozen=True)
class PipelineState:
    """A pipeline as the ledger has it. `read_topic_id`: the id of the topic that it read; None before its first batch.
    `failed_checks`: the blocking checks that its pending batch failed.
    """

    name: str
    topic: str
    halt_code: str | None = None
    halt_seen: str = ""
    failed_checks: Sequence[str] = ()
    last_error: str | None = None
    retry_at: datetime | None = None
    read_topic_id: str | None = None


def findings(states: Sequence[PipelineState], topic_ids: Mapping[str, str]) -> Iterator[Finding]:
    """Return a finding for each pipeline that needs a person, and one for all others. `topic_ids`: the current ids
    from Kafka, by topic.
    """
    trouble = [found for state in states if (found := _of(state, topic_ids.get(state.topic))) is not None]
    yield from trouble
    if fine := len(states) - len(trouble):
        yield well(AREA, AREA, f"{plural(fine, 'pipeline')} without a halt or a failure.")


def _of(state: PipelineState, topic_id: str | None) -> Finding | None:
    how = f"To see how to resolve it: tidegate resolve {state.name}"
    if state.halt_code is not None:
        return error(AREA, state.name, f"{state.name} is halted ({state.halt_code}): {state.halt_seen}", how)
    if topic_id is not None and state.read_topic_id not in (None, topic_id):
        recreated = (
            f"The topic {state.topic} was recreated since {state.name} read it (its id was {state.read_topic_id} "
            f"and is now {topic_id}). The next run halts."
        )
        return error(AREA, state.name, recreated, f"Start a run, then: tidegate resolve {state.name}")
    if state.failed_checks:
        failed = (
            f"The pending batch of {state.name} fails {', '.join(state.failed_checks)}; nothing from it was published."
        )
        return error(AREA, state.name, failed, how)
    if state.last_error is not None:
        at = f"at {state.retry_at.isoformat(' ', 'seconds')}" if state.retry_at else "when the next run starts"
        failed = f"The last run of {state.name} failed and will be retried {at}: {state.last_error}"
        return warning(AREA, state.name, failed, f"To see what it reads next: tidegate plan {state.name}")
    return None
