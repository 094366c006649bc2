"""The check that a stored plan is still valid: the compare of compare-and-swap."""

from collections.abc import Sequence

from platform_defs.errors.words import plural
from platform_defs.topics.observed import Observed, ObservedTopic
from platform_defs.topics.plan import Plan
from platform_defs.topics.steps import Create, Seen, Step, after, made_by, same_overrides


def difference(plan: Plan, observed: Observed) -> str | None:
    """Return the first change since the plan was made, as a sentence; None if the plan is still valid.

    Steps of the plan that were applied before an interruption are not a change.
    """
    if plan.cluster_id != observed.cluster_id:
        return f"the plan was made on cluster {plan.cluster_id}, but this is cluster {observed.cluster_id}"
    differences = (_of_topic(plan, topic, seen, observed.topics.get(topic)) for topic, seen in plan.topics.items())
    return next((sentence for sentence in differences if sentence), None)


def _of_topic(plan: Plan, topic: str, seen: Seen | None, now: ObservedTopic | None) -> str | None:
    steps = [step for step in plan.steps if step.topic == topic]
    if seen is None:
        made = now is None or any(isinstance(step, Create) and made_by(step, now) for step in steps)
        return None if made else f"{topic} did not exist when the plan was made, but exists now"
    if now is None:
        return f"{topic} no longer exists"
    return None if _reached(seen, steps, now) else f"{topic} was changed since the plan was made: {_what(seen, now)}"


def _reached(seen: Seen, steps: Sequence[Step], now: ObservedTopic) -> bool:
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


def _what(seen: Seen, now: ObservedTopic) -> str:
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
