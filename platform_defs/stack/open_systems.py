"""The ledger and the broker as every command opens them: from TIDEGATE_*, else the embedded stack's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a command imports only the clients that it uses
    from platform_defs.kafka.broker import KafkaBroker
    from platform_defs.ledger.ledger import Ledger
    from platform_defs.stack.endpoints import Endpoints


@dataclass(frozen=True)
class Systems:
    """The systems at `endpoints`, each opened at its first use."""

    endpoints: Endpoints

    @cached_property
    def ledger(self) -> Ledger:
        from platform_defs.ledger.ledger import Ledger

        return Ledger(self.endpoints.postgres_url)

    @cached_property
    def broker(self) -> KafkaBroker:
        from platform_defs.kafka.broker import KafkaBroker

        return KafkaBroker(self.endpoints.kafka_options())


def open_systems() -> Systems:
    """Return the systems. Raises BadInput if the embedded stack is needed and is not running."""
    from platform_defs.stack.endpoints import connection

    return Systems(connection())
