"""Findings about the brokers' addresses: what they advertise, who answers there, and whether it is one cluster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from platform_defs.doctor.findings.addresses import UNTRIED, Address, Answer, Broker, Seen, Trouble
from platform_defs.doctor.findings.finding import Finding, Severity, Subject
from platform_defs.doctor.findings.reach import Advertised, Case, explain
from platform_defs.errors.words import plural


@dataclass(frozen=True)
class Looks:
    """Every address that was tried. `source` is the setting that names the bootstrap addresses."""

    source: str
    protocol: str  # the client's security.protocol
    bootstrap: Sequence[Seen]
    advertised: Mapping[Address, Seen]  # the bootstrap addresses among them were tried once


def advertised_by(bootstrap: Iterable[Seen]) -> list[tuple[Broker, Advertised]]:
    """Return each broker's address, once, as the answers by the bootstrap addresses name it."""
    found = dict[tuple[int, Address], tuple[Broker, Advertised]]()
    for address, answer in _answers(bootstrap):
        for broker in answer.brokers:
            found.setdefault((broker.number, broker.address), (broker, Advertised(broker.number, address, answer)))
    return list(found.values())


def _answers(looked: Iterable[Seen]) -> Iterator[tuple[Address, Answer]]:
    return ((seen.address, seen.outcome) for seen in looked if isinstance(seen.outcome, Answer))


def findings(looks: Looks) -> list[Finding]:
    """Return all findings about the addresses."""
    named = advertised_by(looks.bootstrap)
    return [
        *_bootstrap(looks),
        *_several_clusters(looks.bootstrap),
        *(_advertised(looks, broker, by) for broker, by in named),
        *_shared(named),
        *_alone(looks),
    ]


def reached(looks: Looks) -> dict[int, Address]:
    """Return the brokers of one cluster that clients reach at their advertised addresses, as far as is known."""
    named = advertised_by(looks.bootstrap)
    ours = (pair for pair in named if pair[1].answer.cluster_id == named[0][1].answer.cluster_id)
    return {
        broker.number: broker.address
        for broker, by in ours
        if _advertised(looks, broker, by).severity is not Severity.ERROR
    }


def is_untried(looks: Looks) -> bool:
    """Return True if only librdkafka can tell: the doctor's own check lacks its login or its certificates."""
    troubles = [seen.outcome.kind for seen in looks.bootstrap if isinstance(seen.outcome, Trouble)]
    return not any(_answers(looks.bootstrap)) and any(kind in UNTRIED for kind in troubles)


def _bootstrap(looks: Looks) -> Iterator[Finding]:
    """Yield findings about the bootstrap addresses. A failed one that a broker also advertises is explained there."""
    named = {broker.address for broker, _ in advertised_by(looks.bootstrap)}
    for seen in looks.bootstrap:
        if isinstance(seen.outcome, Answer):
            broker = "a broker" if seen.outcome.answering is None else f"broker {seen.outcome.answering}"
            listener = "" if seen.outcome.listener is None else f" (listener {seen.outcome.listener})"
            yield Subject("kafka", str(seen.address)).well(
                f"The bootstrap address {seen.address} leads to {broker}{listener} of the cluster "
                f"{seen.outcome.cluster_id}."
            )
        elif seen.address not in named:
            yield explain(Case(seen.address, seen.outcome, looks.protocol, looks.source))


def _advertised(looks: Looks, broker: Broker, by: Advertised) -> Finding:
    seen = looks.advertised[broker.address]
    if broker.address.is_loopback and not by.bootstrap.is_loopback:
        return Subject("kafka", str(broker.address)).error(
            f"Broker {broker.number} advertises {broker.address}, which every machine resolves to itself.{by.came_in}",
            f"advertised.listeners of broker {broker.number} must give {_listener(by)} an address that clients on "
            "other machines can reach. Clients on the broker's machine can have their own listener, advertised as "
            "localhost.",
        )
    if isinstance(seen.outcome, Trouble):
        return explain(Case(seen.address, seen.outcome, looks.protocol, looks.source, by))
    return _answered(broker, by, seen.outcome)


def _answered(broker: Broker, by: Advertised, answer: Answer) -> Finding:
    if answer.cluster_id != by.answer.cluster_id:
        return Subject("kafka", str(broker.address)).error(
            f"Broker {broker.number} of cluster {by.answer.cluster_id} advertises {broker.address}, but a broker "
            f"of a different cluster, {answer.cluster_id}, answers there.{by.came_in}",
            f"advertised.listeners of broker {broker.number} must give {_listener(by)} an address of its own; or "
            "correct the port mapping or DNS name so that the address leads to this broker.",
        )
    if answer.answering is None:
        return Subject("kafka", str(broker.address)).warning(
            f"Broker {broker.number} advertises {broker.address}, and a broker of its cluster answers there. Which "
            "broker it is cannot be determined, because this user may not read the brokers' settings.",
            "To let the doctor find out which broker answers, and on which of its advertised.listeners, grant the "
            "user DescribeConfigs on the cluster.",
        )
    if answer.answering == broker.number:
        return Subject("kafka", str(broker.address)).well(f"Broker {broker.number} is reached at {broker.address}.")
    return Subject("kafka", str(broker.address)).error(
        f"Broker {broker.number} advertises {broker.address}, but broker {answer.answering} answers there, so "
        f"clients ask the wrong broker for the partitions of broker {broker.number}.{by.came_in}",
        f"advertised.listeners of broker {broker.number} must give {_listener(by)} an address of its own; or "
        "correct the port mapping, load balancer or DNS name so that the address leads to this broker.",
    )


def _listener(by: Advertised) -> str:
    return "its listener" if by.answer.listener is None else f"its listener {by.answer.listener}"


def _several_clusters(bootstrap: Sequence[Seen]) -> Iterator[Finding]:
    by_cluster = dict[str | None, list[Address]]()
    for address, answer in _answers(bootstrap):
        by_cluster.setdefault(answer.cluster_id, []).append(address)
    if len(by_cluster) > 1:
        parts = (f"{', '.join(map(str, where))} to {cluster}" for cluster, where in by_cluster.items())
        yield Subject("kafka", "bootstrap addresses").error(
            f"The bootstrap addresses lead to different clusters: {'; '.join(parts)}. Which one a client connects "
            "to is random.",
            "List the brokers of only one cluster.",
        )


def _shared(named: Sequence[tuple[Broker, Advertised]]) -> Iterator[Finding]:
    at = dict[tuple[str | None, Address], list[tuple[Broker, Advertised]]]()
    for broker, by in named:
        at.setdefault((by.answer.cluster_id, broker.address), []).append((broker, by))
    for (_, address), sharing in at.items():
        if len(sharing) > 1:
            numbers = [str(broker.number) for broker, _ in sharing]
            who = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
            yield Subject("kafka", str(address)).error(
                f"Brokers {who} advertise the same address, {address}: only one of them can answer "
                f"there.{sharing[0][1].came_in}",
                f"advertised.listeners of each of the brokers {who} must give {_listener(sharing[0][1])} an address of "
                "its own: another host or another port.",
            )


def _alone(looks: Looks) -> Iterator[Finding]:
    if len(looks.bootstrap) != 1 or (seen := looks.bootstrap[0]).answer is None or seen.ips > 1:
        return
    others = [str(one.address) for one in seen.answer.brokers if one.address != seen.address]
    if others and len(seen.answer.brokers) > 1:
        yield Subject("kafka", str(seen.address)).warning(
            f"{looks.source} has only one address, and the cluster has {plural(len(seen.answer.brokers), 'broker')}: "
            f"while the broker at {seen.address} is down, no client can connect, although the other brokers are "
            "available.",
            f"Add a second address, such as {others[0]}.",
        )
