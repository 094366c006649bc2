"""librdkafka's client for administration, and how a setting is changed by it."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry

from resources.kafka.client.connection_log import ConnectionLog
from resources.kafka.client.refusals import refusing


class ListeningClient(AdminClient):
    """An AdminClient that knows why it got no answer. One that is kept has to `forget` it with the next answer, and not
    before: librdkafka says the same only every 30 seconds.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._heard = ConnectionLog()
        conf: dict[str, Any] = {**options, "error_cb": self._heard}
        super().__init__(conf)

    def forget(self) -> None:
        """What was heard so far counts no more."""
        self.poll(0)
        self._heard.forget()

    @property
    def denied(self) -> KafkaError | None:
        """Why no broker lets this user in, where one has answered like that."""
        self.poll(0)
        return self._heard.denied


def admin_client(options: Mapping[str, Any]) -> Any:
    """A ListeningClient; Any, because the futures that its methods return have no type.

    Hold it while it answers: the futures of one that is collected are cancelled. Raises BadInput for options that
    librdkafka does not take.
    """
    with refusing("a client for administration", options):
        return ListeningClient(options)


def override(name: str, value: str | None) -> ConfigEntry:
    """The change of one setting, for incremental_alter_configs; None takes the override away."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=operation)
