"""The addresses to connect to: the servers that TIDEGATE_* names, or the embedded ones.

Apart from settings/settings.py, because the embedded stack reads the settings and this reads the embedded stack's
state.
"""

from dataclasses import dataclass, field
from typing import Any

from platform_defs.errors import BadInput
from platform_defs.kafka.client.connection_log import NO_LOG
from platform_defs.kafka.client.tokens import with_callback
from platform_defs.settings.registry_address import Registry
from platform_defs.settings.settings import settings
from platform_defs.stack import stack


@dataclass(frozen=True)
class Endpoints:
    """Postgres, Kafka and the schema registry, given or embedded.

    `librdkafka`: the options of TIDEGATE_KAFKA_*, without the addresses.
    """

    postgres_url: str = field(repr=False)  # contains the password
    bootstrap_servers: str
    librdkafka: dict[str, str] = field(default_factory=dict, repr=False)
    registry: Registry | None = None  # the schema registry; None if there is none

    def kafka_options(self) -> dict[str, Any]:
        """Return a librdkafka configuration: the addresses and the options given. Raises BadInput.

        The clients log nothing unless TIDEGATE_KAFKA_LOG_LEVEL is set: Tidegate's errors have librdkafka's reason.
        """
        return {"bootstrap.servers": self.bootstrap_servers, **NO_LOG, **with_callback(self.librdkafka)}


def connection() -> Endpoints:
    """Return the endpoints, given or embedded. Raises BadInput if an embedded server is needed and is not running."""
    running = stack.status()
    postgres, kafka = _address("Postgres", running), _address("Kafka", running)
    return Endpoints(postgres, kafka, settings().librdkafka_options, registry_if_any())


def registry_alone() -> Registry:
    """Return the schema registry; needs neither Postgres nor Kafka. Raises BadInput if there is none."""
    if (found := registry_if_any()) is None:
        raise BadInput(
            "no schema registry is configured: set TIDEGATE_REGISTRY_URL, or start the embedded one (tidegate "
            "stack up --registry)"
        )
    return found


def registry_if_any() -> Registry | None:
    """As `registry_alone`, but None if there is none."""
    url = stack.status().registry.address
    return None if url is None else Registry({**settings().registry_options, "url": url})


def kafka_alone() -> dict[str, Any]:
    """Return a librdkafka configuration; needs no Postgres. Raises BadInput if the embedded Kafka is down."""
    return Endpoints("", _address("Kafka", stack.status()), settings().librdkafka_options).kafka_options()


def ledger_alone() -> str:
    """Return the URL of the ledger's database; needs no Kafka. Raises BadInput if the embedded Postgres is down."""
    return _address("Postgres", stack.status())


def ledger_if_any() -> str | None:
    """As `ledger_alone`, but None if it is not running."""
    return stack.status().postgres.address


def _address(server: str, running: stack.StackStatus) -> str:
    """Return the address of Kafka or Postgres. Raises BadInput if the embedded one is not running."""
    address, variable = {
        "Kafka": (running.kafka.address, "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"),
        "Postgres": (running.postgres.address, "TIDEGATE_POSTGRES_URL"),
    }[server]
    if address is None:
        raise BadInput(
            f"the embedded {server} in {running.home} is not running (start it with `tidegate stack up`, or set "
            f"{variable} to use another)"
        )
    return address
