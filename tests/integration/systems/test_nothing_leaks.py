"""A value that the contract classifies is in its table and in its dead letter, and nowhere else.

The tests plant a marked value in classified fields of good and bad messages, make every step fail on it, and search the
ledger, Dagster's storage and each error. Values of open fields are found there, so the search works. The second test
does so with all of Dagster, Spark and the commands.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import randrange
from typing import Any
from uuid import uuid4

import pandas as pd
import pytest
from dagster import DagsterInstance
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.code_location import compose
from platform_defs.contract import odcs_writer
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import Halt, MessagesSuspected, TidegateError
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.resolve.settlement import propose, settle
from tests.support.commands import tidegate
from tests.support.dagster_runs import execute, failure, table_keys
from tests.support.shipped import ASSETS
from tests.support.world import KeptSpark, World, transfer, transfers

MARK = "Zq7Planted"  # the beginning of every planted text

Break = Callable[[World, Pipeline], Pipeline]


@dataclass(frozen=True)
class Planted:
    """The planted values: a text and an account that are classified, and a text that is not."""

    secret: str = field(default_factory=lambda: f"{MARK}{uuid4().hex[:8]}")
    account: str = field(default_factory=lambda: f"A{randrange(50_000, 100_000)}")  # passes the contract's pattern
    open: str = field(default_factory=lambda: f"Yw5Open{uuid4().hex[:8]}")


def bad_messages(planted: Planted) -> list[bytes]:
    """Return messages that no reader takes, and that break each rule; the secret is within an excerpt's reach."""
    secret, shown = planted.secret, planted.open
    deep = '{"memo":' * 120 + f'"{secret}"' + "}" * 120
    whole = [
        f"{secret} is not JSON",
        f'{{"memo": "{secret}',
        f'{{"memo": "{secret}"}} {secret}',
        f'["{secret}"]',
        f'"{secret}"',
        f'{{"memo": "{secret}", "memo": "{secret}"}}',
        f'{{"memo": NaN, "debit_account": "{secret}"}}',
        f'\ufeff{{"memo": "{secret}"}}',
        deep,
    ]
    fields: list[dict[str, Any]] = [
        {"memo": f"\0{secret}"},
        {"memo": f"{secret}\ud800"},
        {"memo": {secret: secret}},
        {"memo": [secret]},
        {"memo": secret * 20},
        {"debit_account": secret},
        {"credit_account": None, "memo": secret},
        {"occurred_at": "yesterday", "memo": secret},
        {"currency": shown, "memo": secret},
        {"amount": shown, "memo": secret},
    ]
    return [
        *(text.encode() for text in whole),
        *(transfer(number, **more) for number, more in enumerate(fields)),
        f'{{"memo": "{secret}'.encode() + b'\xff"}',
    ]


def failing_python(messages: DataFrame) -> DataFrame:
    """Call a function that raises with the value."""

    def check(memos: pd.Series) -> pd.Series:
        for memo in memos:
            if memo and MARK in memo:
                raise ValueError(f"cannot do {memo}")
        return memos

    pandas_udf: Any = F.pandas_udf  # its stubs leave types unknown
    checked = messages.withColumn("memo", pandas_udf(check, "string")("memo"))
    return _postings(checked).where("coalesce(memo, '') <> 'never'").drop("memo")


def failing_cast(messages: DataFrame) -> DataFrame:
    """Cast so that Spark itself blames a value, and quotes it."""
    number = F.expr(f"CAST(CASE WHEN memo LIKE '%{MARK}%' THEN memo ELSE '1' END AS INT)")
    return _postings(messages).where(number > 0).drop("memo")


def spilling(messages: DataFrame) -> DataFrame:
    """Put a value that the table cannot store into a column: COPY quotes it."""
    put = F.expr(f"CASE WHEN memo LIKE '%{MARK}%' THEN concat(memo, char(0)) ELSE account END")
    return _postings(messages).withColumn("account", put).drop("memo")


FAILS = False  # from now on


def failing_later(messages: DataFrame) -> DataFrame:
    """Make the rows, and later raise with the value, as if a system that it calls were away."""
    return failing_cast(messages) if FAILS else _postings(messages).drop("memo")


def _postings(messages: DataFrame) -> DataFrame:
    account = F.col("debit_account").alias("account")
    return messages.select("transfer_id", account, "amount", "currency", "occurred_at", "memo", "_partition", "_offset")


def with_transform(transform: Any) -> Break:
    return lambda _, pipeline: replace(pipeline, transform=transform)


def with_constraint(table: int, clause: str) -> Break:
    """Make one of the pipeline's tables refuse rows."""

    def break_it(world: World, pipeline: Pipeline) -> Pipeline:
        world.send_and_drain(pipeline, transfers(4, start=900))  # creates the tables
        name = pipeline.contract.tables[table].name
        for statement in clause.format(table=name, schema=name.partition(".")[0]).split(";;"):
            world.rows(statement)
        return pipeline

    return break_it


def raising(sqlstate: str) -> Break:
    """Add a trigger to the row table that quotes the row."""
    return with_constraint(
        0,
        "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.account > 'A5' THEN"
        f" RAISE EXCEPTION 'no % here', NEW.account USING ERRCODE = '{sqlstate}'; END IF; RETURN NEW; END $$;;"
        "CREATE TRIGGER refuse AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()",
    )


def with_rule(expectation: str, **arguments: Any) -> Break:
    """Add a blocking batch rule over the classified column, which fails."""

    def break_it(_: World, pipeline: Pipeline) -> Pipeline:
        table = pipeline.contract.row_table
        rule = replace(table.batch_rules[0], name="of_accounts", expectation=expectation, arguments=arguments)
        tables = (replace(table, batch_rules=(rule,)), *pipeline.contract.accumulates)
        return replace(pipeline, contract=replace(pipeline.contract, tables=tables))

    return break_it


LARGE = "account > 'A5'"  # the planted one
BREAKS: dict[str, Break] = {
    "messages": lambda _, pipeline: pipeline,
    "a transform in Python": with_transform(failing_python),
    "a transform in SQL": with_transform(failing_cast),
    "COPY": with_transform(spilling),
    "a unique index": with_constraint(0, f"CREATE UNIQUE INDEX ON {{table}} (account) WHERE {LARGE}"),
    "a check": with_constraint(0, f"ALTER TABLE {{table}} ADD CHECK (NOT {LARGE})"),
    "a trigger": raising("P0001"),
    "a trigger with a code of another class": raising("40001"),
    "an accumulate": with_constraint(1, f"ALTER TABLE {{table}} ADD CHECK (NOT {LARGE})"),
    "a rule of each value": with_rule("ExpectColumnValuesToBeInSet", column="account", value_set=["A00000"]),
    "a rule of all values": with_rule("ExpectColumnMostCommonValueToBeInSet", column="account", value_set=["A00000"]),
    "a rule that cannot be evaluated": with_rule("ExpectColumnMeanToBeBetween", column="account", min_value=1),
}
SEVERAL = {"a unique index": 2, "a rule of all values": 20}  # messages with the planted account
SAYS_NO_VALUE = {"COPY", "a rule of each value", "a rule that cannot be evaluated"}  # even if nothing is classified


def played(world: World, instance: DagsterInstance, name: str, planted: Planted, *, classified: bool) -> str:
    """Run a pipeline that breaks this way by Dagster and without; return all messages about it. If the value is
    classified, do so twice: the second time, the offsets of the first failure are known.
    """
    pipeline = BREAKS[name](world, world.new_pipeline("accumulate", classified=classified))
    accounts = [
        transfer(700 + n, debit=planted.account, credit=f"A{n:05}", memo=planted.secret)
        for n in range(SEVERAL.get(name, 1))
    ]
    bad = bad_messages(planted) if name == "messages" else []  # the others break further on, and search by trying
    world.send(pipeline, [*bad, *accounts, *transfers(2, start=600)], partition=0)
    message = list[str]()
    for _ in range(2 if classified else 1):
        execute(instance, pipeline)
        try:
            world.drain(pipeline)
        except TidegateError as error:
            message += traceback.format_exception(error)
            if isinstance(error, MessagesSuspected):
                world.suspected_long_ago(pipeline)
    return "".join(message)


def places(world: World, text: str) -> set[str]:
    """Return the tables of the ledger and of Dagster's storage with this text in a row. Bytes are in hexadecimal: those
    of dead letters are not found.
    """
    named = "SELECT format('%%I.%%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = ANY (%s)"
    tables = [row["name"] for row in world.rows(named, ["tidegate", "dagster"])]
    asked = "SELECT EXISTS (SELECT FROM {} AS x WHERE position(%s in x::text) > 0) AS there"
    return {table for table in tables if world.rows(asked.format(table), text)[0]["there"]}


def around(messages: str, text: str) -> str:
    """Return the text's surroundings."""
    at = messages.index(text)
    return messages[max(0, at - 2_000) : at + 200]


@pytest.mark.timeout(1_800)  # six runs, and the search for the bad messages in each
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "messages" else pytest.mark.longest) for name in BREAKS],
)
def test_no_classified_value_is_kept_or_said_whatever_breaks(
    world: World, instance: DagsterInstance, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    planted, control = Planted(), Planted()
    message = played(world, instance, name, planted, classified=True) + "".join(capfd.readouterr())
    for text in (planted.secret, planted.account):
        assert places(world, text) == set()
        assert text not in message, around(message, text)
    if name == "messages":
        assert places(world, planted.open) >= {"tidegate.dead_letter", "dagster.event_logs"}  # open values are shown
    else:
        message = played(world, instance, name, control, classified=False)
        found = places(world, control.account) | places(world, control.secret)
        assert found or name in SAYS_NO_VALUE  # so the same pipeline reports it if nothing is classified


@pytest.mark.longest
@pytest.mark.parametrize("classified", [True, False])
def test_a_verify_check_that_cannot_compare_shows_no_classified_value(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, *, classified: bool
) -> None:
    planted = Planted()
    made = world.new_pipeline("accumulate", classified=classified, transform=failing_later)
    tables = (replace(made.contract.row_table, batch_rules=()), *made.contract.accumulates)
    pipeline = replace(made, contract=replace(made.contract, tables=tables))
    world.send_and_drain(pipeline, [transfer(1, memo=planted.secret)], partition=0)
    monkeypatch.setitem(globals(), "FAILS", True)  # of this file: the transform's source must stay the same
    job = compose([pipeline], spark=KeptSpark()).resolve_job_def("verify")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert "even on a retry" in str(failure(result).description)
    assert places(world, planted.secret) == (set() if classified else {"dagster.event_logs"})


@pytest.mark.longest
def test_what_was_recorded_before_a_field_was_classified_is_not_shown_afterwards(
    world: World, instance: DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted, pipeline = Planted(), world.new_pipeline()
    world.send_and_drain(pipeline, [*bad_messages(planted), *transfers(40)], partition=0)
    limits = replace(pipeline.contract.limits, dead_letter_minimum=1, dead_letter_share=0.01)
    world.send(pipeline, bad_messages(planted), partition=0)
    with pytest.raises(Halt):
        world.drain(replace(pipeline, contract=replace(pipeline.contract, limits=limits)))
    assert places(world, planted.secret) >= {"tidegate.dead_letter", "tidegate.pipeline"}

    fields = tuple(replace(item, classification="pii") for item in pipeline.contract.fields)
    contract = replace(pipeline.contract, fields=fields)
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "transfers.odcs.yaml").write_text(odcs_writer.text(contract))
    (tmp_path / "bank" / "transfers.py").write_bytes((ASSETS / "bank" / "transfers.py").read_bytes())
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", world.endpoints.postgres_url)
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", world.endpoints.bootstrap_servers)
    (letter, *_) = [one for one in world.dead_letters(pipeline) if planted.secret in one["error_message"]]
    place = str(letter["partition"]), str(letter["offset"])
    for command in (("dlq", "list"), ("dlq", "show"), ("resolve",), ("plan",), ("lag",)):
        arguments = [*command, pipeline.name, *(place if command[-1] == "show" else ())]
        for form in ("human", "json"):
            answer = tidegate(*arguments, "-o", form)
            assert answer.code in (0, 1), answer.stderr
            assert pipeline.name in answer.stdout
            assert planted.secret not in answer.stdout + answer.stderr
    before = places(world, planted.secret)
    classified = replace(pipeline, contract=contract)
    with pytest.raises(Halt) as halted:
        world.drain(classified)
    assert planted.secret not in str(halted.value.detail.to_json())
    assert not execute(instance, classified, selected=table_keys(classified)).success
    assert places(world, planted.secret) == before, "a halt that is reported again quotes nothing"
    decided = propose(contract, world.ledger, KafkaBroker(world.endpoints.kafka_options()), None)
    assert decided is not None
    settle(world.endpoints.postgres_url, contract, decided, "a test", "a test")
    assert places(world, planted.secret) <= before, "the record of the settlement quotes nothing either"
    assert execute(instance, classified, selected=table_keys(classified)).success, "it reports the first batch"
    assert not any(table.startswith("dagster.") for table in places(world, planted.secret))
