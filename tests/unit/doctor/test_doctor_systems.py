"""The doctor's findings about topics, Postgres, the ledger, Dagster's daemon, clocks and this machine."""

from dataclasses import replace

import pytest

from platform_defs.doctor.findings import machine, postgres, topics
from platform_defs.doctor.findings.finding import Finding, Severity, Subject, by_area, count
from platform_defs.doctor.findings.postgres import LedgerState, Vitals
from platform_defs.doctor.findings.topics import TopicLook, TopicState, TopicTrouble
from platform_defs.doctor.findings.trials import Place, Written, places_to_read, reading, writing

WELL = Vitals(
    version="18.1",
    fsync="on",
    full_page_writes="on",
    synchronous_commit="on",
    most_sessions=97,
    sessions=10,
    role_limit=None,
    role_sessions=1,
    encrypted=True,
    local=False,
    bytes=5_000_000,
    behind=0.1,
    role="tidegate",
    database="shop",
    may_create=True,
)
WHOLE = TopicState({0: 1, 1: 2}, {0: [1, 2, 3], 1: [2, 3, 1]}, {0: [1, 2, 3], 1: [2, 3, 1]}, 2)


def _topic(state: TopicState | TopicTrouble) -> Finding:
    (found,) = topics.of_topic(TopicLook("bank.transfers", ["bank_transfers"], state))
    return found


@pytest.mark.parametrize(
    ("state", "severity", "words"),
    [
        (WHOLE, Severity.OK, "2 partitions, all with a leader and in sync"),
        (replace(WHOLE, min_in_sync=None), Severity.OK, "all with a leader"),
        (replace(WHOLE, leaders={0: 1, 1: None}), Severity.ERROR, "1 partition of 2 (the first: 1) has no leader"),
        (
            replace(WHOLE, in_sync={0: [1, 2], 1: [2, 3, 1]}),
            Severity.WARNING,
            "(the first: 0) has replicas that are not",
        ),
        (replace(WHOLE, in_sync={0: [1], 1: [2]}), Severity.ERROR, "2 partitions of 2 (the first: 0) have fewer"),
        (replace(WHOLE, min_in_sync=4), Severity.WARNING, "is 4, and 2 partitions of 2 (the first: 0) have 3 replicas"),
        (replace(WHOLE, missing_rights=["Read"]), Severity.ERROR, "this user lacks the right Read"),
        (TopicTrouble("missing"), Severity.WARNING, "There is no topic bank.transfers, the topic of pipeline"),
        (TopicTrouble("no_right", "denied"), Severity.ERROR, "This user has no right to see bank.transfers"),
        (
            TopicTrouble("no_answer", "timed out"),
            Severity.ERROR,
            "Kafka did not answer the request to describe bank.transfers",
        ),
    ],
)
def test_a_topic_is_explained(state: TopicState | TopicTrouble, severity: Severity, words: str) -> None:
    found = _topic(state)
    assert (found.severity, found.subject) == (severity, "bank.transfers")
    assert words in found.what
    assert bool(found.do) is (severity is not Severity.OK)


def test_a_topic_that_lacks_several_things_has_a_finding_for_each() -> None:
    state = replace(WHOLE, leaders={0: None, 1: 2}, in_sync={0: [], 1: [2]}, missing_rights=["Describe"])
    assert len(topics.of_topic(TopicLook("t", ["p"], state))) == 3


def test_two_hundred_topics_that_are_well_have_one_line_and_the_others_one_each() -> None:
    missing = [TopicLook(f"m{n}", ["p"], TopicTrouble("missing")) for n in range(3)]
    found = topics.findings([*(TopicLook(f"t{n}", ["p"], WHOLE) for n in range(200)), *missing])
    assert [one.subject for one in found] == ["topics", "m0", "m1", "m2"]
    assert found[0].what.startswith("200 topics")
    assert len(topics.findings([TopicLook(f"t{n}", ["p"], WHOLE) for n in range(10)])) == 10


@pytest.mark.parametrize(
    ("change", "severity", "subject"),
    [
        ({"fsync": "off"}, Severity.ERROR, "fsync"),
        ({"full_page_writes": "off"}, Severity.WARNING, "full_page_writes"),
        ({"synchronous_commit": "off"}, Severity.WARNING, "synchronous_commit"),
        ({"sessions": 90}, Severity.WARNING, "connections"),
        ({"role_limit": 5}, Severity.WARNING, "connections"),
        ({"encrypted": False}, Severity.WARNING, "tls"),
        ({"unprotected": "the connection to db is unencrypted where asked. Add sslmode"}, Severity.WARNING, "tls"),
    ],
)
def test_a_server_setting_that_matters_is_a_finding(
    change: dict[str, object], severity: Severity, subject: str
) -> None:
    assert all(one.severity is Severity.OK for one in postgres.server(WELL))
    (found,) = [one for one in postgres.server(replace(WELL, **change)) if one.severity is not Severity.OK]
    assert (found.severity, found.subject) == (severity, subject)
    assert found.do


def test_an_unencrypted_connection_inside_one_machine_is_well() -> None:
    assert all(one.severity is Severity.OK for one in postgres.server(replace(WELL, encrypted=False, local=True)))


@pytest.mark.parametrize(
    ("state", "may_create", "severities"),
    [
        (LedgerState((), refused="GRANT ..."), True, [Severity.ERROR]),
        (LedgerState(()), False, [Severity.OK, Severity.OK]),
        (LedgerState(None), True, [Severity.OK]),
        (LedgerState(None), False, [Severity.ERROR]),
        (LedgerState(("012_schema_use.sql",)), True, [Severity.WARNING, Severity.OK]),
        (LedgerState((), ("999_later.sql",)), True, [Severity.ERROR, Severity.OK]),
        (LedgerState((), unreadable=("pipeline",)), True, [Severity.OK, Severity.ERROR]),
        (LedgerState((), unwritable=("pipeline",)), True, [Severity.OK, Severity.WARNING]),
        (LedgerState((), may_stage=False), True, [Severity.OK, Severity.WARNING]),
    ],
)
def test_the_ledger_is_explained(state: LedgerState, may_create: bool, severities: list[Severity]) -> None:
    found = list(postgres.ledger(state, replace(WELL, may_create=may_create)))
    assert [one.severity for one in found] == severities


@pytest.mark.parametrize(
    ("heartbeats", "severity", "words"),
    [
        (None, Severity.WARNING, "may not read dagster.daemon_heartbeats"),
        ({}, Severity.WARNING, "has never run"),
        ({"SENSOR": 12.0, "SCHEDULER": 14.0}, Severity.OK, "12 seconds ago"),
        ({"SENSOR": 7_200.0, "SCHEDULER": 7_201.0}, Severity.WARNING, "120 minutes ago"),
        ({"SENSOR": 7_200.0, "SCHEDULER": 10.0}, Severity.WARNING, "sensor daemon"),
    ],
)
def test_dagsters_daemon_is_explained(heartbeats: dict[str, float] | None, severity: Severity, words: str) -> None:
    found = postgres.daemon(heartbeats)
    assert found.severity is severity
    assert words in found.what


@pytest.mark.parametrize(
    ("behind", "severity", "words"),
    [
        (1.9, Severity.OK, "agree"),
        (-1.9, Severity.OK, "agree"),
        (61.0, Severity.WARNING, "61 s behind Postgres"),
        (-3_600.0, Severity.WARNING, "3,600 s ahead of Postgres"),
    ],
)
def test_clocks_are_compared(behind: float, severity: Severity, words: str) -> None:
    found = postgres.clock(behind)
    assert found.severity is severity
    assert words in found.what


def test_this_machine_is_explained() -> None:
    assert machine.java(17, "/usr/bin/java", 17).severity is Severity.OK
    assert "Spark needs Java 17 or newer" in machine.java(11, "/usr/bin/java", 17).what
    assert machine.disk("/data", 3_000_000_000).severity is Severity.OK
    assert "has 500 MB left" in machine.disk("/data", 500_000_000).what
    assert machine.spark("4.3.0").severity is Severity.OK
    assert machine.spark("4.3.0", "spark://s:7077", "Connection refused").severity is Severity.ERROR
    assert "accepts connections" in machine.spark("4.3.0", "spark://s:7077").what
    assert "was not checked" in machine.spark("4.3.0", "yarn").what


def test_reading_is_tried_once_at_each_broker() -> None:
    looks = [TopicLook("a", ["p"], WHOLE), TopicLook("b", ["q"], WHOLE), TopicLook("c", ["r"], TopicTrouble("missing"))]
    assert places_to_read(looks) == [Place("a", 0, 1), Place("a", 1, 2)]


def test_a_trial_that_fails_names_partition_broker_and_reason() -> None:
    worked, failed = Place("a", 0, 1), Place("a", 1, 2)
    good, bad = reading({worked: None, failed: "no answer within 3 s"})
    assert good.severity is Severity.OK
    assert "Partition 1 of a could not be read from its leader, broker 2: no answer within 3 s" in bad.what
    assert writing(Written("t", problem="refused"), None).severity is Severity.ERROR
    assert writing(Written("t", 0, 7), "no answer").severity is Severity.ERROR
    assert "offset 7 of partition 0 of t" in writing(Written("t", 0, 7), None).what


def test_findings_are_counted_and_grouped_in_their_order() -> None:
    well, wrong = Subject("kafka", "a").well("x"), Subject("postgres", "b").error("y", "do")
    found = [well, wrong, Subject("kafka", "c").warning("z", "do")]
    assert count(found) == {"error": 1, "warning": 1, "ok": 1}
    assert by_area(found) == {"kafka": (found[0], found[2]), "postgres": (found[1],)}
