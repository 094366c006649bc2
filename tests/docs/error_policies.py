"""The tables of docs/reference/error-policies.md, from platform_defs/errors/error_policy.py."""

from collections.abc import Sequence

from platform_defs.errors import error_policy
from platform_defs.errors.error_policy import ErrorPolicy, ErrorRule
from tests.docs.tables import code, table

MEANINGS = {
    ErrorPolicy.AWAY: "retried for as long as the system is unavailable, busy or out of space",
    ErrorPolicy.RETRY: f"retried, at most {error_policy.TRIES} times in a row; then the pipeline halts",
    ErrorPolicy.REFUSED_ROW: "the message is found and becomes a dead letter; the other messages commit",
    ErrorPolicy.SUSPECT: "the same, if it fails repeatedly while another message passes",
    ErrorPolicy.DENIED: (
        "Kafka rejects the login, or an ACL is missing; retried until corrected, at least every five minutes"
    ),
    ErrorPolicy.BAD_INPUT: "a contract, table, setting or right must be corrected; retried like `retry`",
    ErrorPolicy.HALT: "the pipeline halts at once",
    ErrorPolicy.BUG: "a bug in Tidegate, reported as one; retried like `retry`",
}


def policy_kinds() -> str:
    """Return the classifications, and what follows from each."""
    return table(("policy", "what follows"), ((code(kind), MEANINGS[kind]) for kind in ErrorPolicy))


def policies_of_postgres() -> str:
    """Return the classification of each SQLSTATE, for each place."""
    rows = (
        (_codes(item), *(item.at(place) for place in ("ledger", "staging", "table")), item.why)
        for item in error_policy.SQLSTATES
    )
    return table(("SQLSTATE", "the ledger's statements", "COPY", "writing rows", "why"), rows)


def policies_of_kafka() -> str:
    """Return the classification of each Kafka code, by its name."""
    return _of(error_policy.KAFKA, "code")


def policies_of_registry() -> str:
    """Return the classification of each HTTP status."""
    return _of(error_policy.REGISTRY, "HTTP status")


def policies_of_spark() -> str:
    """Return the classification of each condition, class or SQLSTATE."""
    return _of(error_policy.SPARK, "condition, class or SQLSTATE")


def policies_of_errors() -> str:
    """Return the classification of each error class; a class that is not listed has its parent's."""
    return table(("error", "policy"), ((code(kind.__name__), policy) for kind, policy in error_policy.OWN.items()))


def _of(rulings: Sequence[ErrorRule], head: str) -> str:
    return table((head, "policy", "why"), ((_codes(item), item.policy, item.why) for item in rulings))


def _codes(item: ErrorRule) -> str:
    return ", ".join(map(code, item.codes))
