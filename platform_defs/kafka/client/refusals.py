"""Kafka's errors as the project's own (platform_defs/errors/error_policy.py has the table)."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from platform_defs.errors import AccessDenied, BadInput, InternalError, TidegateError, error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.kafka.client.rights import KINDS, PAGE, Right

REMEDY = "Correct TIDEGATE_KAFKA_* (options, certificates), or the topic's name"
LOG_IN = (
    "Correct TIDEGATE_KAFKA_SASL_USERNAME, TIDEGATE_KAFKA_SASL_PASSWORD and TIDEGATE_KAFKA_SASL_MECHANISM, or the "
    "source of the token; tidegate doctor shows what the brokers offer"
)
ENCRYPT = (
    "Correct TIDEGATE_KAFKA_SSL_CA_LOCATION (the CA that signed the brokers' certificates) and the other "
    "TIDEGATE_KAFKA_SSL_* settings; tidegate doctor shows what is wrong"
)
NO_OPTIONS: Mapping[str, Any] = {}


def refusal(
    reason: KafkaError, place: str, needed: Iterable[Right] = (), options: Mapping[str, Any] = NO_OPTIONS
) -> TidegateError | None:
    """Return the project's error if only a user can help; None if Kafka may answer differently later.

    `place` describes the request to Kafka, `needed` the rights for it; `options` are librdkafka's.
    """
    message = f"{reason.str()} ({reason.name()})"
    place = f"the request {place}" if place.startswith("to ") else place
    match error_policy.of_kafka(reason.name()):
        case ErrorPolicy.DENIED:
            return AccessDenied(f"Kafka refuses {place}: {message}. {remedy(reason, needed, options)}")
        case ErrorPolicy.BAD_INPUT:
            return BadInput(f"Kafka refuses {place}: {message}. {REMEDY}")
        case ErrorPolicy.BUG:
            return InternalError.of(place, message)
        case _:
            return None


def remedy(reason: KafkaError, needed: Iterable[Right], options: Mapping[str, Any]) -> str:
    """Return the remedy for an error by which Kafka denies something; "" for any other.

    It has the commands that grant the rights in `needed` that the error is about; all, if it is about none: Kafka names
    the cluster if a producer may write to no topic.
    """
    code, rights = reason.name(), tuple(needed)
    if error_policy.of_kafka(code) is not ErrorPolicy.DENIED:
        return ""
    if code not in KINDS:  # a wrong password needs no grant
        failed = getattr(options.get("oauth_cb"), "failure", None)  # tokens.TokenCallback
        return failed or (ENCRYPT if code == "_SSL" else LOG_IN)
    meant = [right for right in rights if right.kind == KINDS[code]]
    listed = " && ".join(right.command(options) for right in meant or rights)
    how = f": {listed}" if listed else ""
    return f"Ask a Kafka administrator to grant the right{how} ({PAGE} lists all rights)"


@contextmanager
def refusing(place: str, options: Mapping[str, Any] = NO_OPTIONS) -> Generator[None]:
    """Raise BadInput or InternalError for the errors of `refusal`; transient ones stay a KafkaException."""
    try:
        yield
    except KafkaException as error:
        if (refused := refusal(error.args[0], place, (), options)) is not None:
            raise refused from error
        raise
