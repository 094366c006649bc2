"""librdkafka's client for administration, and how a setting is changed by it."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry

from resources.kafka.refusals import refusing


def admin_client(options: Mapping[str, Any]) -> Any:
    """An AdminClient; Any, because the futures that its methods return have no type.

    Hold it while it answers: the futures of one that is collected are cancelled. Raises BadInput for options that
    librdkafka does not take.
    """
    with refusing("a client for administration"):
        return AdminClient(dict(options))


def override(name: str, value: str | None) -> ConfigEntry:
    """The change of one setting, for incremental_alter_configs; None takes the override away."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=operation)
