"""A watch of consumer groups: it describes them repeatedly, and yields the changes."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from platform_defs.errors import BrokerAway, TidegateError
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.events import GroupEvent, changes, with_kept_partitions
from platform_defs.kafka.group_state import DEAD, EMPTY, Group

OF_ONE, OF_ALL = 0.5, 1.0  # seconds between two descriptions of one group, and of all
STEP = 0.1  # seconds between two calls of `stopped`


@dataclass(frozen=True)
class Watch:
    """A watch of the group `name`, which need not exist yet, or of all groups that this user may describe."""

    client: KafkaGroups
    name: str | None = None

    def events(self, stopped: Callable[[], bool]) -> Iterator[GroupEvent]:
        """Yield the current state of each group with members, or of the named one, then each change, until `stopped`.

        It continues while no broker answers, but raises BrokerAway if the first description fails. It always raises
        errors of missing rights and wrong addresses.
        """
        known = self._described({})
        if self.name and not known:
            yield GroupEvent(kind="absent", group=Group(name=self.name, type="", state=DEAD))
        for _, group in sorted(known.items()):
            if self.name or group.members:
                yield GroupEvent(kind="group", group=group)
        away = False
        while self._waited(stopped):
            try:
                found = self._described(known)
            except BrokerAway as error:
                if not away:
                    yield GroupEvent(kind="away", reason=str(error))
                away = True
                continue
            if away:
                yield GroupEvent(kind="back")
            away = False
            yield from changes(known, found)
            known = found

    def _waited(self, stopped: Callable[[], bool]) -> bool:
        """Wait for the next description. Return False if the watch is to stop."""
        until = time.monotonic() + (OF_ONE if self.name else OF_ALL)
        while not (over := stopped()) and time.monotonic() < until:
            time.sleep(STEP)
        return not over

    def _described(self, known: Mapping[str, Group]) -> dict[str, Group]:
        """Return the groups by name; one that Kafka does not describe is unchanged."""
        found = self._one(self.name) if self.name else self._all(known)
        return {name: with_kept_partitions(one, known.get(name)) for name, one in found.items()}

    def _one(self, name: str) -> dict[str, Group]:
        found = self.client.describe([name]).get(name)
        if isinstance(found, TidegateError):
            raise found
        return {} if found is None else {name: found}

    def _all(self, known: Mapping[str, Group]) -> dict[str, Group]:
        """Return all groups. One that is no longer listed is described too: its coordinator may be a broker that does
        not answer.
        """
        groups = dict(self.client.listing().groups)
        active = [name for name, one in groups.items() if one.state != EMPTY]
        for name, one in self.client.describe([*active, *(known.keys() - groups.keys())]).items():
            if isinstance(one, Group):
                groups[name] = one
            elif name in known:
                groups[name] = known[name]
        return groups
