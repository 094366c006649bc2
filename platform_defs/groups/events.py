"""Events of consumer groups: the changes between two descriptions of them, and a watch that yields them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from platform_defs.errors import BrokerAway, TidegateError
from platform_defs.errors.words import plural
from platform_defs.groups.child import KafkaGroups
from platform_defs.kafka.group_state import CLASSIC, DEAD, EMPTY, REBALANCING, Group, Member, Place

OF_ONE, OF_ALL = 0.5, 1.0  # seconds between two descriptions of one group, and of all
STEP = 0.1  # seconds between two calls of `stopped`
Kind = Literal["group", "absent", "created", "deleted", "joined", "left", "state", "assignment", "away", "back"]


@dataclass(frozen=True, kw_only=True)
class GroupEvent:
    """A change of a group. `away` and `back` are about the brokers, and have no group."""

    kind: Kind
    group: Group | None = None
    member: Member | None = None  # of joined, left and assignment
    before: str | None = None  # of state: the one before
    gained: tuple[Place, ...] = ()
    lost: tuple[Place, ...] = ()
    reason: str | None = None  # of away

    def __str__(self) -> str:
        """Return the event in words, without the time and the group's name."""
        group, member = self.group, self.member
        match self.kind:
            case "away":
                return f"Kafka does not answer; trying again until it does: {self.reason}"
            case "back":
                return "Kafka answers again"
            case "absent":
                return "does not exist yet; waiting for it"
            case "deleted":
                return "deleted"
            case "group" if group is not None:
                each = "".join(f"; {one} has {in_words(one.partitions)}" for one in group.members)
                return f"{group.state}, {plural(len(group.members), 'member')}, {group.type} protocol{each}"
            case "created" if group is not None:
                return f"created: {group.state}, {group.type} protocol"
            case "state" if group is not None:
                return f"state {self.before} → {group.state}"
            case "joined" if member is not None:
                return f"joined: {member}"
            case "left" if member is not None:
                had = f", had {in_words(self.lost)}" if self.lost else ""
                return f"left: {member}{had}"
            case _ if member is not None:
                both = [("gained", self.gained), ("lost", self.lost)]
                changed = ", ".join(f"{word} {in_words(places)}" for word, places in both if places)
                return f"assignment: {member} {changed}; has {in_words(member.partitions)}"
            case _:
                return self.kind

    def to_json(self) -> dict[str, Any]:
        """Return the event as `tidegate groups watch -o json` prints it, without the time."""
        document: dict[str, Any] = {"event": self.kind, "group": self.group and self.group.name}
        if self.group is not None and self.kind in ("group", "created", "state"):
            document |= {"type": self.group.type, "state": self.group.state}
        if self.kind == "state":
            document["before"] = self.before
        if self.group is not None and self.kind == "group":
            document["members"] = [member_json(one) for one in self.group.members]
        if self.member is not None:
            document |= member_json(self.member)
            document |= {"gained": places_json(self.gained), "lost": places_json(self.lost)}
        return document | ({"reason": self.reason} if self.kind == "away" else {})


def member_json(member: Member) -> dict[str, Any]:
    """Return a member as every command of `tidegate groups` prints it."""
    document = {**asdict(member), "partitions": places_json(member.partitions)}
    del document["target"]
    return document


def places_json(places: Iterable[Place]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(places)]


def in_words(places: Sequence[Place]) -> str:
    """Return the partitions of each topic: "orders 0, 2; payments 1"; "nothing" if there are none."""
    topics = dict.fromkeys(topic for topic, _ in sorted(places))
    each = (f"{topic} {', '.join(str(p) for t, p in sorted(places) if t == topic)}" for topic in topics)
    return "; ".join(each) or "nothing"


def with_kept_partitions(group: Group, before: Group | None) -> Group:
    """Return the group with the members' partitions of `before` if it is a classic group that rebalances: Kafka then
    describes members without partitions, and only real changes must become events.
    """
    if group.type != CLASSIC or group.state not in REBALANCING:
        return group
    had = {one.member_id: one.partitions for one in before.members} if before else {}
    kept = tuple(replace(one, partitions=had.get(one.member_id, ())) for one in group.members)
    return replace(group, members=kept)


def changes(before: Mapping[str, Group], after: Mapping[str, Group]) -> Iterator[GroupEvent]:
    """Yield the changes between two descriptions of groups by name: per group the members that left and joined, its
    state, then the partitions that each member gained and lost.
    """
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is None and new is not None:
            yield GroupEvent(kind="created", group=new)
        yield from _members_changed(old, new)
        if old is not None and new is None:
            yield GroupEvent(kind="deleted", group=old)


def _members_changed(old: Group | None, new: Group | None) -> Iterator[GroupEvent]:
    earlier, current = ({one.member_id: one for one in each.members} if each else {} for each in (old, new))
    for member_id in [one for one in earlier if one not in current]:
        had = earlier[member_id].partitions
        yield GroupEvent(kind="left", group=old, member=replace(earlier[member_id], partitions=()), lost=had)
    for member_id in [one for one in current if one not in earlier]:
        yield GroupEvent(kind="joined", group=new, member=replace(current[member_id], partitions=()))
    if old is not None and new is not None and old.state != new.state:
        yield GroupEvent(kind="state", group=new, before=old.state)
    for member_id, member in current.items():
        has, had = {*member.partitions}, {*(earlier[member_id].partitions if member_id in earlier else ())}
        if has != had:
            gained, lost = tuple(sorted(has - had)), tuple(sorted(had - has))
            yield GroupEvent(kind="assignment", group=new, member=member, gained=gained, lost=lost)


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
        if self.name:
            named = self.client.describe([self.name])
            for error in (one for one in named.values() if isinstance(one, TidegateError)):
                raise error
            found = {name: one for name, one in named.items() if isinstance(one, Group)}
        else:
            found = self._all(known)
        return {name: with_kept_partitions(one, known.get(name)) for name, one in found.items()}

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
