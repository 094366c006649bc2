"""librdkafka's client for administration, and the change of a setting with it."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry

from platform_defs.kafka.client.connection_log import ConnectionLog
from platform_defs.kafka.client.refusals import refusing


class ListeningClient(AdminClient):
    """An AdminClient that knows why it got no answer. A client that is kept has to `forget` the reason after the next
    answer, not before: librdkafka repeats it only every 30 seconds.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._connection_log = ConnectionLog()
        conf: dict[str, Any] = {**options, "error_cb": self._connection_log}
        super().__init__(conf)

    def forget(self) -> None:
        """Drop the errors received so far."""
        self.poll(0)
        self._connection_log.forget()

    @property
    def denied(self) -> KafkaError | None:
        """The reason why brokers refuse this user's login; None without such an answer."""
        self.poll(0)
        return self._connection_log.denied

    def why(self, error: KafkaError) -> str:
        """Return the reason for `error` (ConnectionLog.why)."""
        self.poll(0)
        return self._connection_log.why(error)


def admin_client(options: Mapping[str, Any]) -> Any:
    """Return a ListeningClient; Any, because the futures that its methods return have no type.

    Keep it while it answers: the futures of a collected client are cancelled. Raises BadInput for options that
    librdkafka does not take.
    """
    with refusing("an admin client", options):
        return ListeningClient(options)


def override(name: str, value: str | None) -> ConfigEntry:
    """Return the change of one setting, for incremental_alter_configs; None removes the override."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=operation)
