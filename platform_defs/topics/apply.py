"""The operations of `tidegate topics`: observe, plan, check, and apply a plan that no rule refuses."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from platform_defs.cluster.ledger import TopicsLedger
from platform_defs.cluster.observe import Look
from platform_defs.cluster.reassign import Progress, Reassigning, Record
from platform_defs.cluster.reassignment import THROTTLE, Reassignment, TopicPlan
from platform_defs.contract.reader.catalogue import BrokenContract, read_contracts
from platform_defs.contract.reader.topics_file import NAME, read_topics_file
from platform_defs.errors import BadInput, BrokerAway, TidegateError
from platform_defs.errors.words import plural
from platform_defs.topics.admin import TopicAdmin
from platform_defs.topics.declared import Declarations, Declared, declarations
from platform_defs.topics.evidence import Witness
from platform_defs.topics.evidence_rules import Evidence, cluster_known, read_before, same_cluster, unread_kept
from platform_defs.topics.observed import Observed, ObservedTopic
from platform_defs.topics.plan import Plan, plan_of
from platform_defs.topics.rules import rule_violations
from platform_defs.topics.steps import Create, Reassign, Seen, Step, after, made_by, same_overrides
from platform_defs.topics.violations import Place, Violation
from platform_defs.topics.written_keys import keys_needed, partitioner_kept, sample_keys, to_sample

VERSION = 1  # of a plan's file
MOVED = 3600.0  # seconds after which an apply stops waiting; the moves continue


@dataclass(frozen=True)
class Allowed:
    """The exceptions that a user has confirmed."""

    break_key_order: bool = False
    new_cluster: str | None = None  # the id of a cluster that replaces the first one
    cluster_id: str | None = None  # of the intended cluster, if no ledger shows it
    recreate: bool = False  # deleted topics that pipelines have read
    retired: tuple[str, ...] = ()  # as shown for pipelines that will not read a topic any more


@dataclass(frozen=True)
class CheckedPlan:
    """A plan, and the rules' violations."""

    plan: Plan
    violations: tuple[Violation, ...]
    declared: Mapping[str, Declared]
    evidence: Evidence

    @property
    def refused(self) -> bool:
        return any(violation.severity == "refuse" for violation in self.violations)


@dataclass(frozen=True)
class StoredPlan:
    """The file of a plan."""

    version: int
    plan: Plan


@dataclass(frozen=True)
class Topics:
    """The topics of the contracts in `folder`, or `only` some of them."""

    folder: Path
    admin: TopicAdmin
    ledger: str | None  # the URL of its database
    only: tuple[str, ...] = ()
    home: Path = Path()  # the folder of the record of moves

    def declared(self) -> Declarations:
        """Return the declarations. Raises BadInput for a topics.yaml that cannot be read, for a name of `only` that
        nothing declares, or a contract that cannot be used.
        """
        found = read_contracts(self.folder)
        message = declarations(found.good, read_topics_file(self.folder), str(self.folder / NAME))
        if not self.only:
            advice = "Its topics were skipped. To plan the others, use --topic NAME"
            broken = [_broken(item, "", advice) for item in found.broken]
            return replace(message, refused=(*message.refused, *broken))
        known = {**message.topics, **message.undeclared}
        for missing in (name for name in self.only if name not in known):
            for item in found.broken:
                if item.may_read(missing):
                    raise item.error
            raise BadInput(f"{missing} is declared neither in a contract nor in {NAME}", field=missing)
        topics = {name: one for name, one in message.topics.items() if name in self.only}
        undeclared = {name: one for name, one in message.undeclared.items() if name in self.only}
        refused = [violation for violation in message.refused if violation.topic in self.only]
        refused += [  # its keys and its table's kind are not known, so no rule can protect its unread messages
            _broken(item, name, f"It may read {name}. Correct it first")
            for item in found.broken
            for name in self.only
            if item.may_read(name)
        ]
        return replace(message, topics=topics, undeclared=undeclared, refused=tuple(refused))

    def plan(self, allowed: Allowed | None = None) -> CheckedPlan:
        """Return the steps to take now, and the violations. Raises BadInput for another cluster than `allowed`
        names.
        """
        message, allowed = self.declared(), allowed or Allowed()
        observed, hidden = self.admin.observe_all([*message.topics, *message.undeclared])
        if allowed.cluster_id not in (None, observed.cluster_id):
            raise BadInput(
                f"--cluster-id is {allowed.cluster_id}, but this is cluster {observed.cluster_id}. Correct "
                "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS. Nothing was changed",
                field="--cluster-id",
            )
        if refused := [error for name, error in hidden.items() if name in message.topics]:
            raise refused[0]
        missing = message.undeclared.keys() - observed.topics.keys() - hidden.keys()
        topics = {**message.topics, **{name: message.undeclared[name] for name in sorted(missing)}}
        evidence = Witness(self.admin.options, self.ledger).evidence(topics, observed)
        keys = sample_keys(self.admin.options, to_sample(topics, observed))
        plan = plan_of(topics.values(), observed)
        violations = [*message.refused, *rule_violations(topics, observed)]
        violations += unread_kept(topics, observed, evidence, allowed.retired)
        violations += [*same_cluster(observed, evidence), *cluster_known(plan, evidence)]
        violations += read_before(topics, observed, evidence)
        violations += [*partitioner_kept(topics, keys), *keys_needed(topics, observed, keys)]
        return CheckedPlan(plan, tuple(_allow(violations, allowed, observed)), topics, evidence)

    def apply(self, checked: CheckedPlan, allowed: Allowed, show: Callable[[str], None]) -> None:
        """Apply the plan. Raises BadInput if a rule or Kafka refuses a step: then nothing was changed."""
        if checked.refused:
            raise BadInput("the plan violates a rule; nothing was changed")
        try:
            self.admin.dry_run(checked.plan.steps)
        except BadInput as error:  # Kafka's refusal
            declared = checked.declared.get(error.field or "")
            if declared is None or (place := declared.place()) is None:
                raise
            what = f"{error.problem}. Nothing was changed"
            raise BadInput(what, file=place.file, line=place.line, field=place.field) from error
        moves = reassignment_of(checked.plan)
        if moves.topics:
            self._reassigning.check(moves)
        if self.ledger is not None and not checked.evidence.unknown:
            TopicsLedger(self.ledger).keep_cluster(checked.plan.cluster_id, instead=allowed.new_cluster is not None)
        self.admin.apply(checked.plan.steps, show)
        if moves.topics:
            self._move(moves, show)

    def _move(self, moves: Reassignment, show: Callable[[str], None]) -> None:
        """Move replicas, and wait for the end. Raises BrokerAway if it has not ended within MOVED seconds."""

        def show_progress(at: Progress) -> None:
            show(f"{plural(len(at.moving), 'partition')} in progress and {len(at.waiting)} waiting")

        begun = self._reassigning.begin(moves, THROTTLE)
        ended = self._reassigning.wait(begun.kept, MOVED, show_progress)
        if ended is None or ended.kept.state == "under way":
            raise BrokerAway(
                f"replicas are still being moved, or have not started to move, after {MOVED:g} s. Run tidegate "
                "cluster reassign status, which also completes the reassignment (throttles, leader election), then "
                "run this command again"
            )

    def finish_moves(self) -> None:
        """End the reassignment of a killed apply, if its replicas have moved: its throttles would stay."""
        with suppress(TidegateError):  # another cluster's, or no broker answers: `cluster reassign status` reports it
            kept = self._reassigning.kept()
            if kept is not None and kept.state == "under way":
                self._reassigning.status(kept)

    @property
    def _reassigning(self) -> Reassigning:
        return Reassigning(Look(self.admin.options), Record(self.home, self.ledger))

    def still(self, stored: Plan, checked: CheckedPlan) -> None:
        """Raise BadInput unless the stored plan, or the rest of it, is what must be done now."""
        observed = self.admin.observe([*stored.topics, *checked.plan.topics])
        changed = plan_staleness(stored, observed)
        if changed is None and [step for step in checked.plan.steps if step not in stored.steps]:
            changed = "the declarations have changed"
        if changed is not None:
            raise BadInput(
                f"the plan is out of date: {changed}. Nothing was changed. Make a new one: tidegate topics plan"
            )


def reassignment_of(plan: Plan) -> Reassignment:
    """Return the moves of a plan as a reassignment."""
    steps = [step for step in plan.steps if isinstance(step, Reassign)]
    topics = ((step, seen.topic_id) for step in steps if (seen := plan.topics[step.topic]) is not None)
    return Reassignment(
        plan.cluster_id,
        tuple(
            TopicPlan(
                step.topic,
                topic_id,
                {move.partition: move.observed for move in step.moves},
                {move.partition: move.becomes for move in step.moves},
            )
            for step, topic_id in topics
        ),
    )


def store(plan: Plan, path: Path) -> None:
    """Write the plan's file."""
    try:
        path.write_bytes(TypeAdapter(StoredPlan).dump_json(StoredPlan(VERSION, plan), indent=2) + b"\n")
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror}", file=str(path)) from error


def stored(path: Path) -> Plan:
    """Return the plan in the file. Raises BadInput if it is none, or another version's."""
    try:
        found = TypeAdapter(StoredPlan).validate_json(path.read_bytes())
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise BadInput(f"is not a plan of tidegate topics: {first['msg']}", file=str(path), field=field) from error
    if found.version != VERSION:
        raise BadInput(
            f"is a plan in format version {found.version}; this Tidegate reads version {VERSION}", file=str(path)
        )
    return found.plan


def _allow(violations: Sequence[Violation], allowed: Allowed, observed: Observed) -> list[Violation]:
    """Return the violations; those that a user has allowed become warnings."""
    rules = {"order_kept"} if allowed.break_key_order else set[str]()
    rules |= {"same_cluster"} if allowed.new_cluster == observed.cluster_id else set()
    rules |= {"cluster_known"} if observed.cluster_id in (allowed.cluster_id, allowed.new_cluster) else set()
    rules |= {"read_before"} if allowed.recreate else set()
    return [replace(one, severity="warn") if one.rule in rules else one for one in violations]


def _broken(contract: BrokenContract, topic: str, advice: str) -> Violation:
    error = contract.error
    place = Place(error.file or str(contract.path), error.line, error.field)
    return Violation("refuse", "contract", topic, f"{error.problem}. {advice}", place)


# A stored plan is still valid: the compare of compare-and-swap.
def plan_staleness(plan: Plan, observed: Observed) -> str | None:
    """Return the first change since the plan was made, as a sentence; None if the plan is still valid.

    Steps of the plan that were applied before an interruption are not a change.
    """
    if plan.cluster_id != observed.cluster_id:
        return f"the plan was made on cluster {plan.cluster_id}, but this is cluster {observed.cluster_id}"
    differences = (
        _topic_staleness(plan, topic, seen, observed.topics.get(topic)) for topic, seen in plan.topics.items()
    )
    return next((sentence for sentence in differences if sentence), None)


def _topic_staleness(plan: Plan, topic: str, seen: Seen | None, now: ObservedTopic | None) -> str | None:
    steps = [step for step in plan.steps if step.topic == topic]
    if seen is None:
        made = now is None or any(isinstance(step, Create) and made_by(step, now) for step in steps)
        return None if made else f"{topic} did not exist when the plan was made, but exists now"
    if now is None:
        return f"{topic} no longer exists"
    if _is_as_planned(seen, steps, now):
        return None
    return f"{topic} was changed since the plan was made: {_topic_change(seen, now)}"


def _is_as_planned(seen: Seen, steps: Sequence[Step], now: ObservedTopic) -> bool:
    """Return True if the topic is as it was when planned, or as after the first n steps, for any n."""
    state: Seen | None = seen
    for step in (None, *steps):
        if step is not None and not isinstance(step, Create):
            state = after(state, step)
        if state is None:  # Kafka chose the replicas of new partitions: a new plan is needed
            return False
        same_log = (state.topic_id, state.replicas) == (now.topic_id, now.replicas)
        if same_log and same_overrides(state.overrides, now.overrides):
            return True
    return False


def _topic_change(seen: Seen, now: ObservedTopic) -> str:
    if seen.topic_id != now.topic_id:
        return f"it was deleted and recreated (its id was {seen.topic_id} and is now {now.topic_id})"
    if len(seen.replicas) != len(now.partitions):
        return f"it had {plural(len(seen.replicas), 'partition')} and now has {len(now.partitions)}"
    if seen.replicas != now.replicas:
        return "the replicas of its partitions have changed"
    names = sorted({*seen.overrides, *now.overrides})
    changed = [name for name in names if seen.overrides.get(name) != now.overrides.get(name)]
    return ", ".join(
        f"{name} was {seen.overrides.get(name, 'not set')} and is now {now.overrides.get(name, 'not set')}"
        for name in changed
    )
