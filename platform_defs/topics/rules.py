"""The rules for declared topics: each is a function from a declaration and the observed cluster to violations.

A violation names the file and line of the key at fault, and the remedy. The rules that need more than the cluster's
description, such as the unread messages of pipelines, are in topics/evidence_rules.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import lcm

from platform_defs.errors.words import noun_for, plural
from platform_defs.topics.declared import Declared
from platform_defs.topics.observed import Observed, setting
from platform_defs.topics.placement import spread_over
from platform_defs.topics.violations import Severity, Violation

ISR, UNCLEAN, POLICY = "min.insync.replicas", "unclean.leader.election.enable", "cleanup.policy"
TOMBSTONES, DELAY = "delete.retention.ms", "min.compaction.lag.ms"
Rule = Callable[[Declared, Observed], Iterator[Violation]]


def said(declared: Declared, severity: Severity, rule: str, message: str, *keys: str) -> Violation:
    """Return a violation at the place of the first of `keys` that is declared."""
    return Violation(severity, rule, declared.topic, message, declared.place(*keys))


def replication_fits(declared: Declared, observed: Observed) -> Iterator[Violation]:
    exists, live = declared.topic in observed.topics, len(observed.brokers)
    factor = declared.replication_factor if exists else _factor(declared, observed)
    if factor is not None and factor > live:
        default = "" if declared.replication_factor else ", the cluster's default,"
        yield said(
            declared,
            "refuse",
            "replication_fits",
            f"replicationFactor {factor}{default} needs as many brokers, but only {live} "
            f"{'is' if live == 1 else 'are'} alive. Write at most {live}, or add brokers first",
            "replicationFactor",
        )


def writable(declared: Declared, observed: Observed) -> Iterator[Violation]:
    """Check min.insync.replicas against the replication factor."""
    factor, least = _factor(declared, observed), _least(declared, observed)
    if factor is None or least is None or not _is_about(declared, observed, "replicationFactor", f"config.{ISR}"):
        return
    keys = (f"config.{ISR}", "replicationFactor")
    if least > factor:
        message = (
            f"{ISR} {least} is more than the {plural(factor, 'replica')} of {declared.topic}: Kafka 4.3 treats it as "
            f"{factor}, so fewer brokers hold a write than is declared; older versions may refuse every write with "
            f"acks=all. Write {ISR} {max(1, factor - 1)}, or a larger replicationFactor"
        )
        yield said(declared, "refuse", "writable", message, *keys)
    elif least == factor > 1:
        message = (
            f"{ISR} {least} equals the number of replicas ({factor}) of {declared.topic}: one broker down stops every "
            f"write with acks=all. Write {ISR} {factor - 1}"
        )
        yield said(declared, "warn", "writable", message, *keys)


def durable(declared: Declared, observed: Observed) -> Iterator[Violation]:
    """Warn if losing one broker can lose data that was acknowledged with acks=all."""
    factor, least = _factor(declared, observed), _least(declared, observed)
    if not _is_about(declared, observed, "replicationFactor", f"config.{ISR}", f"config.{UNCLEAN}"):
        return
    lost = "acknowledged messages are lost with"
    if factor == 1 and len(observed.brokers) > 1:  # on one broker there is nothing else to write
        message = f"{declared.topic} has one replica: {lost} its broker. Write replicationFactor 3 and {ISR} 2"
        yield said(declared, "warn", "durable", message, "replicationFactor")
    elif factor is not None and factor > 1 and least == 1:
        message = f"{ISR} 1: {lost} the only broker that has them, even with acks=all. Write {ISR} 2"
        yield said(declared, "warn", "durable", message, f"config.{ISR}", "replicationFactor")
    if (setting(observed, declared.topic, declared.config, UNCLEAN) or "").lower() == "true":
        message = f"{UNCLEAN} lets a replica that is not in sync become leader: {lost} its predecessor. Write false"
        yield said(declared, "warn", "durable", message, f"config.{UNCLEAN}")


def never_fewer(declared: Declared, observed: Observed) -> Iterator[Violation]:
    there, wanted = observed.topics.get(declared.topic), declared.partitions
    if there is not None and wanted is not None and wanted < len(there.partitions):
        yield said(
            declared,
            "refuse",
            "never_fewer",
            f"{declared.topic} has {plural(len(there.partitions), 'partition')}, but {wanted} are declared: Kafka "
            f"cannot remove partitions. Write {len(there.partitions)}, or create a new topic with {wanted} and "
            "move to it (docs/how-to/change-partitions.md)",
            "partitions",
        )


def order_kept(declared: Declared, observed: Observed) -> Iterator[Violation]:
    """Refuse more partitions if keyOrder is strict: they move keys, which breaks the order per key."""
    there, wanted = observed.topics.get(declared.topic), declared.partitions
    if there is None or wanted is None or wanted <= len(there.partitions) or declared.key_order != "strict":
        return
    moved = moved_share(len(there.partitions), wanted)
    yield said(
        declared,
        "refuse",
        "order_kept",
        f"going from {len(there.partitions)} to {wanted} partitions moves {moved:.0%} of the keys of "
        f"{declared.topic} to another partition, but keyOrder is strict: later messages of a key could be read "
        "before earlier ones. Once nothing writes to the topic and everything is read: --break-key-order "
        "(docs/how-to/change-partitions.md)",
        "partitions",
    )


def moved_share(before: int, becomes: int) -> float:
    """Return the share of keys that another number of partitions moves: a key stays if both remainders are equal."""
    return 1 - before / lcm(before, becomes)


def compaction_fits(declared: Declared, observed: Observed) -> Iterator[Violation]:
    """Check a new cleanup.policy against the tables: appends need every message, upserts the latest one per key."""
    wanted = setting(observed, declared.topic, declared.config, POLICY)
    there = observed.topics.get(declared.topic)
    before = there.effective.get(POLICY) if there else None
    if f"config.{POLICY}" not in declared.places or wanted is None or wanted == before:
        return
    appended, upserted = declared.read_by("append"), declared.read_by("upsert")
    if _compacts(wanted) and not _compacts(before) and appended:
        message = (
            f"{POLICY} {wanted} keeps only one message of each key, but {appended[0]} appends a row for every message: "
            "messages not read yet would be lost. Leave it delete, or make the table upsert"
        )
        yield said(declared, "refuse", "compaction_fits", message, f"config.{POLICY}")
    ages = not _compacts(wanted) or ("delete" in wanted and "delete" not in (before or ""))
    if _compacts(before) and ages and upserted:
        message = (
            f"{POLICY} {wanted} deletes the latest messages of keys by age, and the table of {upserted[0]} is built "
            f"from them: it could not be rebuilt. Leave it {before}"
        )
        yield said(declared, "refuse", "compaction_fits", message, f"config.{POLICY}")


def tombstones_kept(config: Mapping[str, str | None]) -> str | None:
    """Return the minimum retention of a tombstone in ms by a topic's settings: -1 for ever, None if not known.

    A tombstone may be removed `delete.retention.ms` after its first compaction.
    """
    if not _compacts(config[POLICY]):
        return "-1"
    kept, delay = config[TOMBSTONES], config[DELAY]
    return str(int(kept) + int(delay or 0)) if kept and kept.isdecimal() and (delay or "0").isdecimal() else None


def tombstones_outlast(declared: Declared, observed: Observed) -> Iterator[Violation]:
    """Refuse to keep tombstones for less time than a pipeline that deletes rows by them takes to start a run."""
    config = {name: setting(observed, declared.topic, declared.config, name) for name in (POLICY, TOMBSTONES, DELAY)}
    kept, keys = tombstones_kept(config), [f"config.{name}" for name in (TOMBSTONES, DELAY, POLICY)]
    if kept in (None, "-1") or not _is_about(declared, observed, *keys):
        return
    slow = [one for one in declared.readers if one.disposition == "upsert" and one.seconds * 1000 > int(kept or 0)]
    if slow:
        message = (
            f"tombstones of {declared.topic} are kept for {kept} ms, but {slow[0].pipeline} starts a run after "
            f"{slow[0].seconds:g} s: rows that they should delete could remain forever. Write {TOMBSTONES} "
            "86400000, or a time longer than any outage"
        )
        yield said(declared, "refuse", "tombstones_outlast", message, *keys)


def over_racks(declared: Declared, observed: Observed) -> Iterator[Violation]:
    there = observed.topics.get(declared.topic)
    narrow = [n for n, one in enumerate(there.replicas if there else ()) if not spread_over(one, observed.brokers)]
    if narrow:
        moves = "The plan moves them" if declared.replication_factor else "Declare replicationFactor to have them moved"
        some = ", ".join(map(str, narrow[:5])) + (f" and {len(narrow) - 5} more" if len(narrow) > 5 else "")
        message = (
            f"{noun_for(len(narrow), 'partition')} {some} of {declared.topic}: the replicas are in fewer racks than "
            f"possible, so one rack down could take all of them offline. {moves}"
        )
        yield said(declared, "warn", "over_racks", message, "replicationFactor")


def known_setting(declared: Declared, observed: Observed) -> Iterator[Violation]:
    """Refuse settings that Kafka does not have; a described topic shows all names."""
    known = next((topic.effective for topic in observed.topics.values() if topic.effective), declared.config)
    for name in (name for name in declared.config if name not in known):
        yield said(declared, "refuse", "known_setting", f"this Kafka has no topic setting {name}", f"config.{name}")


def names_apart(topics: Mapping[str, Declared], observed: Observed) -> Iterator[Violation]:
    """Refuse names that differ only by '.' and '_': they are equal in Kafka's metrics, so it refuses the second."""
    taken = {name.replace(".", "_"): name for name in sorted(observed.names)}
    for name, declared in topics.items():
        other = taken.setdefault(name.replace(".", "_"), name)
        if other != name and name not in observed.names:
            message = (
                f"{name} and {other} differ only by '.' and '_', which are equal in Kafka's metric names: Kafka "
                "refuses the second. Choose another name"
            )
            yield said(declared, "refuse", "names_apart", message)


RULES: tuple[Rule, ...] = (
    replication_fits,
    writable,
    durable,
    never_fewer,
    order_kept,
    compaction_fits,
    tombstones_outlast,
    over_racks,
    known_setting,
)


def rule_violations(topics: Mapping[str, Declared], observed: Observed) -> list[Violation]:
    """Return every violation of these rules, topic by topic."""
    found: Iterable[Violation] = (v for one in topics.values() for rule in RULES for v in rule(one, observed))
    return [*found, *names_apart(topics, observed)]


def _factor(declared: Declared, observed: Observed) -> int | None:
    if declared.replication_factor is not None:
        return declared.replication_factor
    if (there := observed.topics.get(declared.topic)) is not None:
        return there.replication_factor
    default = observed.defaults.get("default.replication.factor")
    return int(default) if default else None


def _least(declared: Declared, observed: Observed) -> int | None:
    value = setting(observed, declared.topic, declared.config, ISR)
    return int(value) if value and value.isdecimal() else None


def _is_about(declared: Declared, observed: Observed, *keys: str) -> bool:
    """Return True if a key is declared or the plan creates the topic; else another user chose the settings."""
    return declared.topic not in observed.topics or any(key in declared.places for key in keys)


def _compacts(policy: str | None) -> bool:
    return "compact" in (policy or "")
