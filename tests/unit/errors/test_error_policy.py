"""Every error has a classification, and a task's error reaches the driver whatever a message quotes."""

import inspect
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, cast

import psycopg
import pyspark
import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JNetworkError

from platform_defs import errors
from platform_defs.engine.job.stage import stage_frame
from platform_defs.engine.task.task import TaskWork
from platform_defs.engine.task.task_errors import from_envelope, to_envelope
from platform_defs.errors import AccessDenied, BrokerAway, InternalError, LedgerAway, TidegateError, error_policy
from platform_defs.errors.error_policy import (
    ErrorPolicy,
    ErrorRule,
    JavaCause,
    Place,
    of_error,
    of_kafka,
    of_spark,
    of_sqlstate,
)
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right, to_run
from platform_defs.offsets import OffsetRange
from platform_defs.settings.contracts import find_contract, find_pipeline
from tests.unit.test_errors import example, tree

NONCE = "3f1c"
STATES = [getattr(kind, "sqlstate", None) for _, kind in inspect.getmembers(psycopg.errors, inspect.isclass)]
CODES = sorted({state for state in STATES if isinstance(state, str)})
KAFKA_CODES = sorted(
    KafkaError(code).name() for _, code in inspect.getmembers(KafkaError, lambda value: isinstance(value, int))
)


def listed(rulings: Any) -> list[str]:
    return [code for ruling in rulings for code in ruling.codes]


# ── The tables are complete ──────────────────────────────────────────────────────────────────────────────────────────


def test_every_sqlstate_of_postgres_is_listed_itself_or_by_its_class() -> None:
    assert len(CODES) > 240
    known = set(listed(error_policy.SQLSTATES))
    assert [code for code in CODES if code not in known and code[:2] not in known] == []
    assert {code for code in known if len(code) == 5} <= set(CODES), "a code that Postgres does not have"


def test_every_error_code_of_kafka_is_listed() -> None:
    assert len(KAFKA_CODES) > 180
    assert sorted(listed(error_policy.KAFKA)) == KAFKA_CODES


def test_every_class_of_sqlstate_that_spark_has_is_listed() -> None:
    conditions = _conditions(Path(pyspark.__file__).parent / "jars")
    states = {stated["sqlState"][:2] for stated in conditions.values() if "sqlState" in stated}
    assert len(states) > 20
    assert states - set(listed(error_policy.SPARK)) == set()


def _conditions(jars: Path) -> dict[str, Any]:
    """Return Spark's error conditions, from the jar that has them in this version."""
    for each in sorted(jars.glob("spark-common-utils*.jar")):
        with zipfile.ZipFile(each) as archive:
            if "error/error-conditions.json" in archive.namelist():
                return json.loads(archive.read("error/error-conditions.json"))
    raise AssertionError("Spark's error conditions are nowhere")


@pytest.mark.parametrize("rulings", [error_policy.SQLSTATES, error_policy.KAFKA, error_policy.SPARK])
def test_nothing_is_listed_twice_and_each_line_says_why(rulings: list[ErrorRule]) -> None:
    assert [code for code, often in Counter(listed(rulings)).items() if often > 1] == []
    assert all(ruling.why.endswith(".") for ruling in rulings)


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.__name__)
def test_every_error_of_ours_has_a_verdict(kind: type[TidegateError]) -> None:
    if kind is not TidegateError:
        assert all(isinstance(of_error(error), ErrorPolicy) for error in example(kind))


# ── Requirements of the issue ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", CODES)
def test_what_depends_on_a_row_is_never_told_as_a_system_that_is_away(code: str) -> None:
    """Only AWAY is retried without end."""
    rows = code[:2] in {"22", "23", "44", "54", "P0", "38", "39", "21", "20", "2F", "09"}
    for place in ("staging", "table"):
        assert (of_sqlstate(code, place) is ErrorPolicy.REFUSED_ROW) == (rows or code == "40002")
    if of_sqlstate(code, "table") is ErrorPolicy.AWAY:
        assert code[:2] in {"08", "25", "53", "55", "57"}


@pytest.mark.parametrize("code", CODES)
def test_the_ledgers_own_statements_refuse_no_row(code: str) -> None:
    assert of_sqlstate(code) is not ErrorPolicy.REFUSED_ROW


EXPECTED: dict[tuple[str | None, Place], ErrorPolicy] = {
    (None, "table"): ErrorPolicy.AWAY,
    ("25006", "ledger"): ErrorPolicy.AWAY,
    ("25P03", "ledger"): ErrorPolicy.AWAY,
    ("25P02", "ledger"): ErrorPolicy.BUG,
    ("40001", "table"): ErrorPolicy.RETRY,
    ("42501", "table"): ErrorPolicy.BAD_INPUT,
    ("42501", "ledger"): ErrorPolicy.BAD_INPUT,
    ("42P10", "table"): ErrorPolicy.BAD_INPUT,
    ("42P10", "staging"): ErrorPolicy.BUG,
    ("42703", "ledger"): ErrorPolicy.BUG,
    ("53100", "table"): ErrorPolicy.AWAY,
    ("53200", "table"): ErrorPolicy.RETRY,
    ("54000", "table"): ErrorPolicy.REFUSED_ROW,
    ("54000", "ledger"): ErrorPolicy.BUG,
    ("55P03", "ledger"): ErrorPolicy.AWAY,
    ("57014", "table"): ErrorPolicy.RETRY,
    ("57P01", "table"): ErrorPolicy.AWAY,
    ("22021", "staging"): ErrorPolicy.REFUSED_ROW,
    ("P0001", "table"): ErrorPolicy.REFUSED_ROW,
    ("P0001", "ledger"): ErrorPolicy.BAD_INPUT,
    ("2F005", "ledger"): ErrorPolicy.BAD_INPUT,
    ("38000", "ledger"): ErrorPolicy.BAD_INPUT,
    ("39P03", "ledger"): ErrorPolicy.BAD_INPUT,
    ("21000", "ledger"): ErrorPolicy.BUG,
    ("XX000", "table"): ErrorPolicy.RETRY,
    ("XX001", "ledger"): ErrorPolicy.HALT,
    ("ZZ999", "table"): ErrorPolicy.RETRY,  # an extension's own
}


@pytest.mark.parametrize(("code", "place"), list(EXPECTED))
def test_single_codes_of_postgres(code: str | None, place: Place) -> None:
    assert of_sqlstate(code, place) is EXPECTED[code, place]


@pytest.mark.parametrize("name", KAFKA_CODES)
def test_no_error_of_kafka_blames_a_message(name: str) -> None:
    assert of_kafka(name) not in {ErrorPolicy.REFUSED_ROW, ErrorPolicy.SUSPECT}
    if "AUTH" in name:
        assert of_kafka(name) is ErrorPolicy.DENIED


def test_an_unknown_code_of_kafka_is_tried_again_with_a_limit() -> None:
    assert of_kafka("ERR_9999?") is ErrorPolicy.RETRY


SPARKS = "org.apache.spark."
JOBS: dict[str, tuple[list[JavaCause], ErrorPolicy]] = {
    "a cast": (
        [JavaCause(f"{SPARKS}SparkNumberFormatException", "CAST_INVALID_INPUT", "22018")],
        ErrorPolicy.REFUSED_ROW,
    ),
    "raise_error": (
        [JavaCause(f"{SPARKS}SparkRuntimeException", "USER_RAISED_EXCEPTION", "P0001")],
        ErrorPolicy.REFUSED_ROW,
    ),
    "a Python function": (
        [JavaCause(f"{SPARKS}api.python.PythonException", "PYTHON_EXCEPTION", "38000")],
        ErrorPolicy.SUSPECT,
    ),
    "a worker that dies": (
        [JavaCause(f"{SPARKS}SparkException"), JavaCause("java.io.EOFException")],
        ErrorPolicy.SUSPECT,
    ),
    "out of memory": (
        [JavaCause(f"{SPARKS}SparkException"), JavaCause("java.lang.OutOfMemoryError")],
        ErrorPolicy.SUSPECT,
    ),
    "a job canceled": ([JavaCause(f"{SPARKS}SparkException", "SPARK_JOB_CANCELLED", "XXKDA")], ErrorPolicy.RETRY),
    "an executor lost": ([JavaCause(f"{SPARKS}SparkException")], ErrorPolicy.RETRY),
    "no space": ([JavaCause(f"{SPARKS}SparkException"), JavaCause("java.io.IOException")], ErrorPolicy.RETRY),
    "Spark stopped": ([JavaCause("java.lang.IllegalStateException")], ErrorPolicy.RETRY),
    "the JVM gone": ([], ErrorPolicy.RETRY),
    "a column there is not": ([JavaCause("AnalysisException", "UNRESOLVED_COLUMN", "42703")], ErrorPolicy.BAD_INPUT),
}


@pytest.mark.parametrize("what", JOBS)
def test_how_a_spark_job_fails(what: str) -> None:
    causes, verdict = JOBS[what]
    assert of_spark(causes) is verdict


@pytest.mark.parametrize("gone", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")])
def test_spark_that_ends_before_a_job_starts_is_neither_a_bug_nor_the_transforms_fault(gone: Exception) -> None:
    class Ended:
        def newSession(self) -> None:  # Spark's name
            raise gone

    ranges = (OffsetRange("bank.transfers", 0, 0, 1),)
    spark, nothing = cast("Any", Ended()), cast("Any", None)
    work = TaskWork(find_contract("bank_transfers"), ranges, nothing, nothing)
    with pytest.raises(errors.SparkAway):
        stage_frame(spark, find_pipeline("bank_transfers"), work)


def test_an_error_of_postgres_that_is_tried_again_keeps_its_own_verdict() -> None:
    assert of_error(LedgerAway("gone")) is ErrorPolicy.AWAY
    assert of_error(LedgerAway("deadlock", sqlstate="40P01")) is ErrorPolicy.RETRY
    assert of_error(LedgerAway("damaged", sqlstate="XX001")) is ErrorPolicy.HALT


# ── From a task to the driver ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [kind for kind in tree() if kind is not errors.GateFailed], ids=lambda k: k.__name__)
def test_an_error_in_its_envelope_is_the_same_on_the_driver(kind: type[TidegateError]) -> None:
    for error in example(kind):
        if isinstance(error, errors.Halt):  # never raised in a task
            continue
        again = from_envelope(f"Traceback ...\n{to_envelope(error, NONCE)}\n SQLSTATE: 38000", NONCE)
        assert type(again) is kind
        assert (str(again), json.dumps(vars(again))) == (str(error), json.dumps(vars(error)))


def test_an_unexpected_error_in_a_task_is_a_bug_of_ours() -> None:
    found = from_envelope(str(to_envelope(KeyError("x"), NONCE)), NONCE)
    assert isinstance(found, InternalError)
    assert "bug in Tidegate" in str(found)
    assert "KeyError: 'x'" in str(found)


@given(st.text(), st.text())
def test_nothing_that_a_message_says_is_taken_for_an_error_of_ours(before: str, after: str) -> None:
    quoted = str(to_envelope(BrokerAway("of another job"), "another nonce"))
    assert from_envelope(f"{before}\nplatform_defs.errors.LedgerAway: {quoted}{after}", "c0ffee" * 5) is None


@given(st.text())
def test_an_error_may_say_anything(message: str) -> None:
    found = from_envelope(str(to_envelope(BrokerAway(message), NONCE * 8)), NONCE * 8)
    assert (type(found), str(found)) == (BrokerAway, message)


def test_a_right_that_is_missing_is_named_with_the_command_that_grants_it() -> None:
    options = {"bootstrap.servers": "kafka:9092", "sasl.username": "tidegate"}
    needed = (to_run("payments"), Right("group", "tidegate-payments", ("Read",)))
    begins = "kafka-acls.sh --bootstrap-server kafka:9092 --add --allow-principal User:tidegate"
    topic = f"{begins} --operation Read --operation DescribeConfigs --topic payments"
    group = f"{begins} --operation Read --group tidegate-payments"
    for name, grants in {
        "TOPIC_AUTHORIZATION_FAILED": (topic,),
        "GROUP_AUTHORIZATION_FAILED": (group,),
        "CLUSTER_AUTHORIZATION_FAILED": (topic, group),
    }.items():
        denied = refusal(KafkaError(getattr(KafkaError, name)), "to read payments", needed, options)
        assert isinstance(denied, AccessDenied)
        assert str(denied).startswith("Kafka refuses the request to read payments: ")
        assert " && ".join(grants) in str(denied)
        assert str(denied).count("kafka-acls.sh") == len(grants)
        assert of_error(denied) is ErrorPolicy.DENIED
    wrong = refusal(KafkaError(KafkaError._AUTHENTICATION), "to read payments", needed, options)
    assert isinstance(wrong, AccessDenied)
    assert "kafka-acls.sh" not in str(wrong)
    assert "TIDEGATE_KAFKA_SASL_PASSWORD" in str(wrong)
