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
    if running.postgres.address is None or running.kafka.address is None:
        server = "Postgres" if running.postgres.address is None else "Kafka"
        raise _not_running(server, running)
    options = settings().librdkafka_options
    return Endpoints(running.postgres.address, running.kafka.address, options, registry_if_any())


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
    running = stack.status()
    if running.kafka.address is None:
        raise _not_running("Kafka", running)
    return Endpoints("", running.kafka.address, settings().librdkafka_options).kafka_options()


def ledger_alone() -> str:
    """Return the URL of the ledger's database; needs no Kafka. Raises BadInput if the embedded Postgres is down."""
    running = stack.status()
    if running.postgres.address is None:
        raise _not_running("Postgres", running)
    return running.postgres.address


def ledger_if_any() -> str | None:
    """As `ledger_alone`, but None if it is not running."""
    return stack.status().postgres.address


def _not_running(server: str, running: stack.StackStatus) -> BadInput:
    variable = {"Kafka": "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "Postgres": "TIDEGATE_POSTGRES_URL"}[server]
    return BadInput(
        f"the embedded {server} in {running.home} is not running (start it with `tidegate stack up`, or set {variable} "
        "to use another)"
    )
