"""Events of consumer groups: the changes between two descriptions of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from platform_defs.errors.words import plural
from platform_defs.kafka.group_state import CLASSIC, REBALANCING, Group, Member, Place

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
                return f"Kafka does not answer; asking again until it does: {self.reason}"
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
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "partitions": places_json(member.partitions),
    }


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
    earlier, current = _by_id(old), _by_id(new)
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


def _by_id(group: Group | None) -> dict[str, Member]:
    return {one.member_id: one for one in group.members} if group else {}
