"""The consequence if the registry does not return a schema: one table, with a line for each use of the schemas."""

from dataclasses import dataclass
from enum import Enum

from platform_defs.errors import RegistryAway
from platform_defs.registry.answers import BUSY


class Consequence(Enum):
    """The consequence for one id."""

    RAISE = "raise"  # RegistryAway, or SchemasNotGiven if the registry answers for other ids
    MISSING = "missing"  # as for an id that the registry does not have: its messages become dead letters
    OMIT = "omit"  # the id is neither known nor missing


RAISE, MISSING, OMIT = Consequence


@dataclass(frozen=True)
class Policy:
    """A line of the table. Each attribute is an answer of the registry, besides a schema or that it has none."""

    refused: Consequence  # about one schema: 403, 500, one that cannot be read
    silent: Consequence  # none, or one that may be about the registry: 401, 502, a web page
    busy: Consequence  # about the server: 503, 429
    doubtful: Consequence = RAISE  # it has none of the schemas in use, or lacks more than a registry can have
    nowhere: Consequence = RAISE  # there is no registry
    replays: bool = False  # messages that were read before: older than any follower's lag

    def consequence(self, away: RegistryAway) -> Consequence:
        """Return the consequence for an id without an answer."""
        if away.refused:
            return self.refused
        return self.busy if away.status in BUSY else self.silent


RUN = Policy(refused=RAISE, silent=RAISE, busy=RAISE)
ACCEPT = Policy(refused=MISSING, silent=MISSING, busy=RAISE, doubtful=MISSING)  # a person has decided about the batch
REPLAY = Policy(refused=MISSING, silent=RAISE, busy=RAISE, doubtful=MISSING, nowhere=MISSING, replays=True)
ACCEPT_REPLAY = Policy(refused=MISSING, silent=MISSING, busy=RAISE, doubtful=MISSING, nowhere=MISSING, replays=True)
CONFIRM = Policy(refused=MISSING, silent=OMIT, busy=OMIT)  # compares the schemas in use before a new one is kept
# Compares the schemas in use before and after a read; the run can do without.
COMPARE = Policy(refused=OMIT, silent=OMIT, busy=OMIT)
