"""Conclusions from descriptions of consumer groups: idle members, lag, events, and the offsets of a reset."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.errors import BadInput, BrokerAway
from platform_defs.groups.events import GroupEvent, Watch, changes, with_kept_partitions
from platform_defs.groups.own_groups import progress_group, record_group, recording_pipeline, shown_pipeline
from platform_defs.groups.reset import OffsetChange, Target, offset_changes
from platform_defs.kafka.group_state import Bounds, Group, GroupPartition, Member, Place, partitions_of, total_lag

T = "orders"


def member(name: str, *partitions: int) -> Member:
    return Member(member_id=name, client_id=name, host="10.0.0.1", partitions=tuple((T, one) for one in partitions))


def group(*members: Member, state: str = "Stable", kind: str = "classic") -> Group:
    return Group(name="g", type=kind, state=state, members=members)


def partition(committed: int | None, log_start: int = 50, end: int = 100) -> GroupPartition:
    return GroupPartition(topic=T, partition=0, committed=committed, bounds=Bounds(log_start=log_start, end=end))


def test_members_without_a_partition_of_a_stable_group_are_idle() -> None:
    four = (member("a", 0), member("b", 1), member("c", 2), member("d"))
    assert group(*four).idle_sentence == "4 consumers, 3 partitions: 1 is idle"
    assert group(*four, member("e")).idle_sentence == "5 consumers, 3 partitions: 2 are idle"
    assert group(*four[:3]).idle_sentence is None
    assert group(*four, state="PreparingRebalance").idle == ()


@pytest.mark.parametrize(
    ("committed", "lag", "expired", "note"),
    [
        (100, 0, 0, None),
        (60, 40, 0, None),
        (50, 50, 0, None),
        (49, 51, 1, "lags past retention"),
        (0, 100, 50, "so 50 messages can no longer be read"),
        (101, None, 0, "beyond the end"),
        (None, None, 0, None),
    ],
)
def test_lag_is_counted_in_offsets_and_offsets_below_the_log_start_are_expired(
    committed: int | None, lag: int | None, expired: int, note: str | None
) -> None:
    one = partition(committed)
    assert (one.lag, one.expired) == (lag, expired)
    assert (one.note is None) if note is None else note in (one.note or "")


def test_a_group_reads_what_it_committed_and_what_its_members_have() -> None:
    away = BrokerAway("no leader")
    bounds = {(T, 0): Bounds(log_start=0, end=9), (T, 1): away, ("other", 0): Bounds(log_start=0, end=1)}
    found = partitions_of(group(member("a", 1)), {(T, 0): 4, ("elsewhere", 0): 1}, bounds)
    assert [(one.place, one.lag, one.problem) for one in found] == [((T, 0), 5, None), ((T, 1), None, "no leader")]
    assert total_lag(found) == 5
    assert total_lag(found[1:]) is None


def test_groups_of_tidegate_are_known_by_their_names() -> None:
    pipelines = {"orders", "bank_transfers"}
    assert shown_pipeline(progress_group("orders"), pipelines) == "orders"
    assert shown_pipeline("tidegate-of_somebody_else", pipelines) is None
    assert shown_pipeline("orders", pipelines) is None
    for name in (record_group("orders"), f"{record_group('orders')}.2026-11-01", f"{record_group('orders')}.a...b"):
        assert recording_pipeline(name) == "orders"
    assert recording_pipeline(progress_group("orders")) is None
    assert recording_pipeline("tidegate.orders.assets") is None


_IDS = st.sampled_from("abcd")
_GROUPS = st.builds(
    lambda state, owners: group(
        *(member(name, *(p for p, owner in enumerate(owners) if owner == name)) for name in sorted({*owners} - {None})),
        state=state,
    ),
    st.sampled_from(["Stable", "Empty", "PreparingRebalance"]),
    st.lists(st.none() | _IDS, min_size=4, max_size=4),
)
_WORLDS = st.dictionaries(st.sampled_from("xyz"), _GROUPS).map(
    lambda found: {name: replace(one, name=name) for name, one in found.items()}
)


@given(before=_WORLDS, after=_WORLDS)
def test_the_events_between_two_descriptions_lead_from_one_to_the_other(
    before: dict[str, Group], after: dict[str, Group]
) -> None:
    state = {name: one.state for name, one in before.items()}
    owned = {name: {one.member_id: {*one.partitions} for one in found.members} for name, found in before.items()}
    for event in changes(before, after):
        assert event.group is not None
        name, who = event.group.name, event.member.member_id if event.member else ""
        match event.kind:
            case "created":
                state[name], owned[name] = event.group.state, {}
            case "deleted":
                assert owned.pop(name) == {}
                del state[name]
            case "joined":
                owned[name][who] = set()
            case "left":
                assert owned[name].pop(who) == {*event.lost}
            case "state":
                assert state[name] == event.before
                state[name] = event.group.state
            case "assignment":
                owned[name][who] = owned[name][who] - {*event.lost} | {*event.gained}
            case _:
                raise AssertionError(event)
        assert str(event)
        assert event.to_json()["event"] == event.kind
    assert state == {name: one.state for name, one in after.items()}
    assert owned == {name: {m.member_id: {*m.partitions} for m in found.members} for name, found in after.items()}


def test_what_a_classic_group_keeps_during_a_rebalance_is_no_event() -> None:
    stable = group(member("a", 0, 1))
    during = with_kept_partitions(group(member("a"), member("b"), state="PreparingRebalance"), stable)
    after = with_kept_partitions(group(member("a", 0), member("b", 1)), during)
    first = [event.kind for event in changes({"g": stable}, {"g": during})]
    second = [str(event) for event in changes({"g": during}, {"g": after})]
    assert first == ["joined", "state"]
    assert second == [
        "state PreparingRebalance → Stable",
        "assignment: a at 10.0.0.1 lost orders 1; has orders 0",
        "assignment: b at 10.0.0.1 gained orders 1; has orders 1",
    ]


class Answers:
    """A client of groups that gives these answers, one after another."""

    def __init__(self, *answers: Group | BrokerAway | None) -> None:
        self._answers = iter(answers)
        self.over = False

    def describe(self, _names: Sequence[str]) -> Mapping[str, Any]:
        answer = next(self._answers, self)
        if isinstance(answer, BrokerAway):
            return {"g": answer}
        self.over = answer is self
        return {"g": answer} if isinstance(answer, Group) else {}


def watched(monkeypatch: pytest.MonkeyPatch, *answers: Group | BrokerAway | None) -> list[GroupEvent]:
    monkeypatch.setattr("platform_defs.groups.events.OF_ONE", 0)
    client: Any = Answers(*answers)
    found = list[GroupEvent]()
    for event in Watch(client, "g").events(lambda: client.over):
        if client.over:
            break
        found.append(event)
    return found


def test_a_broker_that_is_away_for_a_while_is_said_once_and_ends_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    away, stable = BrokerAway("nobody answers"), group(member("a", 0))
    found = watched(monkeypatch, stable, away, away, away, group(member("a", 0), member("b")), None)
    assert [event.kind for event in found] == ["group", "away", "back", "joined", "left", "left", "deleted"]
    assert "nobody answers" in str(found[1])


def test_a_watch_whose_first_question_is_not_answered_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerAway):
        watched(monkeypatch, BrokerAway("nobody answers"))


def test_a_group_that_does_not_exist_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(monkeypatch, None, None, group(member("a", 0)))
    assert [event.kind for event in found] == ["absent", "created", "joined", "assignment"]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(kind="earliest")),
        ("latest", Target(kind="latest")),
        ("42", Target(kind="offset", offset=42)),
    ],
)
def test_a_target_is_an_end_of_the_log_or_an_offset(text: str, target: Target) -> None:
    assert Target.parse(text) == target


def test_a_target_is_a_time_with_its_zone() -> None:
    times = [Target.parse(text).milliseconds for text in ("2026-11-21T10:00:00Z", "2026-11-21T12:00:00.000+02:00")]
    assert times == [1_795_255_200_000] * 2
    with pytest.raises(BadInput, match="no time zone"):
        Target.parse("2026-11-21T10:00:00")
    for text in ("beginning", "-1", "", "4.2", "earliest "):
        with pytest.raises(BadInput, match="is not earliest, latest, an offset"):
            Target.parse(text)


_BOUNDS = st.builds(
    lambda start, size: Bounds(log_start=start, end=start + size), st.integers(0, 50), st.integers(0, 50)
)
_OFFSETS = st.integers(0, 120)


@given(
    bounds=st.dictionaries(st.tuples(st.just(T), st.integers(0, 3)), _BOUNDS, min_size=1),
    committed=st.dictionaries(st.tuples(st.just(T), st.integers(0, 3)), _OFFSETS),
    offset=_OFFSETS,
    kind=st.sampled_from(["earliest", "latest", "offset", "time"]),
    at=st.lists(st.integers(0, 50), min_size=4, max_size=4),
)
def test_a_reset_moves_every_offset_into_its_log_or_is_refused(
    bounds: dict[Place, Bounds],
    committed: dict[Place, int],
    offset: int,
    kind: Any,
    at: list[int],
) -> None:
    target = Target(kind=kind, offset=offset)
    times = {place: min(held.end, held.log_start + at[place[1]]) for place, held in bounds.items()}
    inside = all(held.log_start <= offset <= held.end for held in bounds.values())
    if kind == "offset" and not inside:
        with pytest.raises(BadInput, match="outside the log"):
            offset_changes(target, committed, bounds, times)
        return
    found = offset_changes(target, committed, bounds, times)
    assert {(one.topic, one.partition) for one in found} == {*bounds}
    for one in found:
        assert one.bounds.log_start <= one.new <= one.bounds.end
        _counts_what_it_moves_over(one)


def _counts_what_it_moves_over(one: OffsetChange) -> None:
    log = range(one.bounds.log_start, one.bounds.end)
    if one.current is None:
        assert (one.skipped, one.read_again) == (None, None)
        return
    unread, unread_then = {*log} & {*range(one.current, 1000)}, {*log} & {*range(one.new, 1000)}
    assert one.skipped == len(unread - unread_then)
    assert one.read_again == len(unread_then - unread)
