"""What Kafka's errors mean, in the project's own words (platform_defs/verdicts.py has the table)."""

from collections.abc import Generator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from platform_defs import verdicts
from platform_defs.errors import BadInput, InternalError, TidegateError
from platform_defs.verdicts import Verdict

REMEDY = (
    "Correct TIDEGATE_KAFKA_* (user, password, certificates, options), or let an administrator of Kafka grant the user "
    "what is missing: a pipeline needs the ACLs Read and Describe on its topic, and Describe and DescribeConfigs"
)


def refusal(reason: KafkaError, place: str) -> TidegateError | None:
    """The error of ours where nothing but a person can help; None where Kafka may answer differently later.

    `place` says what was asked of Kafka.
    """
    said = f"{reason.str()} ({reason.name()})"
    match verdicts.of_kafka(reason.name()):
        case Verdict.BAD_INPUT:
            return BadInput(f"Kafka refuses {place}: {said}. {REMEDY}")
        case Verdict.BUG:
            return InternalError.of(place, said)
        case _:
            return None


@contextmanager
def refusing(place: str) -> Generator[None]:
    """Raises BadInput or InternalError for what `refusal` says of; what may pass stays a KafkaException."""
    try:
        yield
    except KafkaException as error:
        if (refused := refusal(error.args[0], place)) is not None:
            raise refused from error
        raise
