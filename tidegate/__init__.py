"""Tidegate's public API: Kafka topics into Postgres tables, exactly once, in your own Dagster project.

`definitions` returns all that Dagster needs; `topic_asset` lets an asset write a topic; `Producer` writes one without
Dagster. docs/reference/api.md describes each name. Everything outside this package is private.

A name is imported at its first use: a program that only produces does not wait for Dagster and Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from platform_defs.errors import (
        BadInput,
        BrokerAway,
        Halt,
        InternalError,
        LedgerAway,
        NotDelivered,
        ProducerBroken,
        ProducerFenced,
        RegistryAway,
        Retryable,
        TidegateError,
        TopicMissing,
        TransactionAborted,
    )
    from platform_defs.producers.message import Delivered, Message
    from platform_defs.producers.written_topics import topic_asset
    from tidegate.contracts import find_contract
    from tidegate.location import definitions
    from tidegate.producer import Producer
    from tidegate.topics_component import TopicsComponent

    __version__: str

_MODULES = {
    name: module
    for module, names in {
        "tidegate.location": "definitions",
        "tidegate.topics_component": "TopicsComponent",
        "tidegate.contracts": "find_contract",
        "tidegate.producer": "Producer",
        "platform_defs.producers.written_topics": "topic_asset",
        "platform_defs.producers.message": "Message Delivered",
        "platform_defs.errors": (
            "TidegateError Retryable BrokerAway LedgerAway RegistryAway TransactionAborted NotDelivered ProducerBroken "
            "ProducerFenced BadInput TopicMissing Halt InternalError"
        ),
    }.items()
    for name in names.split()
}

__all__ = [
    "BadInput",
    "BrokerAway",
    "Delivered",
    "Halt",
    "InternalError",
    "LedgerAway",
    "Message",
    "NotDelivered",
    "Producer",
    "ProducerBroken",
    "ProducerFenced",
    "RegistryAway",
    "Retryable",
    "TidegateError",
    "TopicMissing",
    "TopicsComponent",
    "TransactionAborted",
    "definitions",
    "find_contract",
    "topic_asset",
]


if not TYPE_CHECKING:  # type checkers know the names above, and report any other

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("importlib.metadata").version("tidegate")
        if name not in _MODULES:
            raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
