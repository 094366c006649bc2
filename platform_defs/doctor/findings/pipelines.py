"""Findings about the pipelines: halted, stopped by a blocking check, failing, or on a topic that was created again."""

from collections.abc import Iterator, Mapping

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.redaction import stored_error
from platform_defs.doctor.findings.finding import Finding, Subject
from platform_defs.errors.halts import BlockingCheckFailed
from platform_defs.errors.words import plural
from platform_defs.ledger.answers import StatusAndPositions

AREA = "pipelines"


def findings(
    contracts: Mapping[str, Contract], known: Mapping[str, StatusAndPositions], topic_ids: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield a finding for each pipeline of the ledger that needs a person, and one for all others. `contracts` are by
    pipeline; `topic_ids`: the current ids from Kafka, by topic.
    """
    pairs = [(contracts[name], one) for name, one in known.items()]
    trouble = [found for contract, one in pairs if (found := _of(contract, one, topic_ids.get(contract.topic)))]
    yield from trouble
    if fine := len(pairs) - len(trouble):
        yield Subject(AREA, AREA).well(f"{plural(fine, 'pipeline')} without a halt or a failure.")


def read_topic_id(contract: Contract, known: StatusAndPositions) -> str | None:
    """Return the id of the topic that the pipeline read; None before its first batch."""
    return next((item.topic_id for item in known.positions if item.topic == contract.topic), None)


def _of(contract: Contract, known: StatusAndPositions, topic_id: str | None) -> Finding | None:
    name, status, topic = contract.pipeline, known.status, contract.topic
    subject, how = Subject(AREA, name), f"To see how to resolve it: tidegate resolve {name}"
    if status.halt is not None:
        return subject.error(f"{name} is halted ({status.halt_code}): {status.halt.reason}", how)
    read_id = read_topic_id(contract, known)
    if topic_id is not None and read_id not in (None, topic_id):
        recreated = (
            f"The topic {topic} was recreated since {name} read it (its id was {read_id} and is now {topic_id}). The "
            "next run halts."
        )
        return subject.error(recreated, f"Start a run, then: tidegate resolve {name}")
    if status.failed_checks and (checks := BlockingCheckFailed.from_json(status.failed_checks).names):
        failed = f"The pending batch of {name} fails {', '.join(checks)}; nothing from it was published."
        return subject.error(failed, how)
    last_error = stored_error(contract, status.last_error, status.last_error_hides)
    if last_error is not None:
        retry_at = status.retry_at if status.backed_off else None
        at = f"at {retry_at.isoformat(' ', 'seconds')}" if retry_at else "when the next run starts"
        failed = f"The last run of {name} failed and will be retried {at}: {last_error}"
        return subject.warning(failed, f"To see what it reads next: tidegate plan {name}")
    return None
