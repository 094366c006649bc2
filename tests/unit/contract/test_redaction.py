"""Classified values: messages contain names, rules and classes of errors, never a value."""

import pickle
import traceback
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.pq import DiagnosticField

from platform_defs.contract.model.classified import HIDDEN, NOT_SHOWN, OPEN, classified, is_classified
from platform_defs.contract.model.column_types import INTEGER, JSON, STRING
from platform_defs.contract.model.contract import (
    Aggregate,
    BatchRule,
    CheckResult,
    Column,
    Contract,
    Fault,
    Field,
    RowRule,
    Table,
)
from platform_defs.contract.redaction import (
    redacted,
    redacting,
    stored_checks,
    stored_error,
    stored_halt,
    stored_reason,
    unexpected,
)
from platform_defs.engine.commit.audit import without_values
from platform_defs.engine.job import job
from platform_defs.engine.task.task_errors import from_envelope, to_envelope
from platform_defs.errors import BadInput, InternalError, TidegateError, quoting
from platform_defs.errors.error_policy import JavaCause, Place
from platform_defs.errors.halts import (
    AccumulateRefused,
    BlockingCheckFailed,
    HaltDetail,
    KeepsFailing,
    TooManyDeadLetters,
    UnknownHalt,
)
from platform_defs.postgres.connection import as_ours, database_errors

QUOTED = "Zq7Quoted"
RULE = RowRule("email_pattern", "email", "pattern", ".+@.+", "")


def field(name: str, classification: str = "", path: tuple[str, ...] = (), kind: Any = STRING) -> Field:
    rules = (RULE,) if name == "email" else ()
    more: Any = {"classification": classification, "physical_path": path}
    return Field(name, kind, False, rules, **more)


def column(name: str, classification: str = "") -> Column:
    return Column(name, STRING, False, classification=classification)


def contract(*fields: Field, columns: tuple[Column, ...] = (), accumulates: tuple[Table, ...] = ()) -> Contract:
    named = columns or tuple(Column(item.name, item.type, False) for item in fields)
    tables = (Table("s.rows", "append", named), *accumulates)
    return Contract("p", "1", "d", "", "t", "json", fields=fields, tables=tables)


PEOPLE = contract(field("email", "restricted"), field("country"))


@pytest.mark.parametrize("word", ["confidential", "RESTRICTED", "Restricted ", "pii", "secret", "top secret", "1"])
def test_every_word_that_does_not_say_the_opposite_classifies(word: str) -> None:
    assert is_classified(word)


@pytest.mark.parametrize("word", ["", " ", *OPEN, "Public", " INTERNAL "])
def test_words_that_say_the_opposite_do_not(word: str) -> None:
    assert not is_classified(word)


def test_a_column_is_what_its_field_is_and_a_field_what_its_column_is() -> None:
    assert classified(PEOPLE).columns == {("s.rows", "email")}
    written_once = contract(field("email"), field("country"), columns=(column("email", "pii"), column("country")))
    assert classified(written_once).fields == {"email"}


@pytest.mark.parametrize(("outer", "inner"), [("restricted", ""), ("", "restricted")])
def test_a_value_that_holds_a_classified_one_is_classified_and_so_is_a_part_of_one(outer: str, inner: str) -> None:
    nested = contract(
        field("customer", outer, kind=JSON),
        field("email", inner, ("customer", "email")),
        field("other", "", ("other",)),
    )
    assert classified(nested).fields == {"customer", "email"}


def test_a_column_of_a_transform_is_classified_unless_it_says_otherwise() -> None:
    columns = (column("country"), column("domain"), column("hashed", "Public"))
    found = classified(contract(field("email", "pii"), field("country"), columns=columns))
    assert found.columns == {("s.rows", "domain")}


def test_an_accumulate_inherits_what_it_groups_by_and_is_made_of() -> None:
    aggregates = (Aggregate("latest", "max", "email"), Aggregate("rows", "count", None))
    sums = Table(
        "s.sums", "accumulate", (column("email"), column("latest"), column("rows")), (), ("email",), aggregates
    )
    found = classified(replace(PEOPLE, tables=(*PEOPLE.tables, sums)))
    assert {name for table, name in found.columns if table == "s.sums"} == {"email", "latest"}


def test_where_anything_is_classified_keys_and_unknown_columns_are_hidden_and_places_are_not() -> None:
    found = classified(PEOPLE)
    hidden = {
        name for name in ("_key", "left", "email", "country", "_offset", "_partition") if found.hides("s.rows", name)
    }
    assert hidden == {"_key", "left", "email"}
    nothing = classified(contract(field("email"), field("country")))
    assert not any(nothing.hides("s.rows", name) for name in ("_key", "left", "email"))


CLASSES = st.sampled_from(
    ["InvalidJson", "InvalidUtf8", "NotAnObject", "WrongType", "OutOfRange", "DuplicateKey", "NotFramed", "Brand new"]
)


@given(error_class=CLASSES, of=st.sampled_from(["email", "_key", None]), text=st.text())
def test_nothing_that_a_reader_says_of_a_classified_field_a_key_or_a_whole_message_is_passed_on(
    error_class: str, of: str | None, text: str
) -> None:
    fault = Fault(3, "decode", error_class, f"{QUOTED}{text}", of)
    (found,) = redacted(PEOPLE, [fault])
    assert QUOTED not in found.message
    assert (found.index, found.error_class, found.field) == (3, error_class, of)
    assert "dlq show" in found.message
    assert redacted(PEOPLE, [replace(fault, message="another")]) == [found]


def test_a_broken_rule_names_field_and_rule() -> None:
    (found,) = redacted(PEOPLE, [Fault(0, "check", "email_pattern", QUOTED, "email")])
    assert found.message.startswith("email breaks email_pattern: the contract requires a match of .+@.+ (classified")


def test_an_open_field_is_quoted_unless_the_reason_may_quote_what_is_beside_it() -> None:
    nested = contract(field("email", "pii", ("user", "email")), field("city", "", ("user", "city")), field("country"))
    faults = [
        Fault(0, "decode", "InvalidUuid", QUOTED, "country"),
        Fault(1, "decode", "InvalidUuid", QUOTED, "city"),
        Fault(2, "decode", "WrongType", QUOTED, "city"),  # user is "...", where an object is required
    ]
    assert [QUOTED in fault.message for fault in redacted(nested, faults)] == [True, True, False]


def test_where_nothing_is_classified_everything_is_quoted() -> None:
    faults = [Fault(0, "decode", "InvalidJson", QUOTED)]
    assert redacted(contract(field("email"), field("country")), faults) == faults


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"column": "email"}, HIDDEN),
        ({"column_A": "country", "column_B": "email"}, HIDDEN),
        ({"column_list": ["country", "email"]}, HIDDEN),
        ({"column": "country"}, QUOTED),
        ({"min_value": 1}, QUOTED),
    ],
)
def test_what_a_rule_observed_in_a_classified_column_is_not_kept(arguments: dict[str, object], shown: str) -> None:
    rule = BatchRule("r", "s.rows", "ExpectX", arguments, "blocking", "")
    of = replace(PEOPLE, tables=(replace(PEOPLE.row_table, batch_rules=(rule,)),))
    observed = {"observed_value": QUOTED, "failed": 2, "samples": [{"partition": 0, "offset": 1}]}
    (found,) = without_values(of, [CheckResult("r", "s.rows", "blocking", False, observed)])
    assert found.observed == {**observed, "observed_value": shown}


def test_an_integer_is_named_by_its_type() -> None:
    ages = contract(field("age", "pii", kind=INTEGER))
    (found,) = redacted(ages, [Fault(0, "decode", "OutOfRange", QUOTED, "age")])
    assert found.message.startswith("age is out of the range of its type (integer)")


CAUSES = [JavaCause("org.apache.spark.SparkException"), JavaCause("org.apache.spark.api.python.PythonException")]
CAST = [JavaCause("org.apache.spark.SparkNumberFormatException", "CAST_INVALID_INPUT", "22018")]


@pytest.mark.parametrize(
    ("causes", "message", "named"),
    [
        (CAUSES, f"ValueError: cannot do {QUOTED}", "it raises ValueError"),
        (CAUSES, QUOTED, "PythonException"),  # the last line of an exception's text
        (CAUSES, f"{QUOTED}: x", "PythonException"),
        (CAST, f"[CAST_INVALID_INPUT] The value '{QUOTED}' cannot be cast", "CAST_INVALID_INPUT (SQLSTATE 22018)"),
        ([], QUOTED, "Spark"),
    ],
)
def test_a_failure_in_a_transform_is_named_and_not_quoted(causes: list[JavaCause], message: str, named: str) -> None:
    found = job._named(causes, message)  # pyright: ignore[reportPrivateUsage]  # Spark's message comes from a JVM
    assert found.startswith(f"{named} (")
    assert QUOTED not in found


def test_where_an_exception_was_raised_is_said_without_its_text() -> None:
    try:
        raise KeyError(QUOTED)
    except KeyError as error:
        bug = unexpected(partial(InternalError.of, "a batch"), error)
    assert QUOTED in str(bug)
    message = str(bug.quoting_nothing())
    assert QUOTED not in message
    assert f"KeyError at {__file__}, line " in message


MAX_EXCLUDED = f"UniqueViolation, constraint c; the rest of the Postgres message {NOT_SHOWN}"


@pytest.mark.parametrize("stage", ["decode", "check", "transform", "publish"])
def test_an_explanation_from_before_a_field_was_classified_is_not_shown(stage: str) -> None:
    for of in ("email", None):
        assert QUOTED not in stored_reason(PEOPLE, stage, "UniqueViolation", f"Key (email)=({QUOTED}) exists", of)
        plain = contract(field("email"), field("country"))
        assert stored_reason(plain, stage, "UniqueViolation", QUOTED, of) == QUOTED


def test_an_explanation_that_quotes_nothing_is_shown_as_it_was_stored() -> None:
    assert stored_reason(PEOPLE, "publish", "UniqueViolation", MAX_EXCLUDED, None) == MAX_EXCLUDED
    (made,) = redacted(PEOPLE, [Fault(0, "check", "email_pattern", QUOTED, "email")])
    assert stored_reason(PEOPLE, "check", "email_pattern", made.message, "email") == made.message
    assert stored_reason(PEOPLE, "check", "country_enum", QUOTED, "country") == QUOTED


def test_a_halt_from_before_a_field_was_classified_quotes_nothing() -> None:
    sample = {"partition": 0, "offset": 7, "field": "email", "message": QUOTED}
    observed = {"failed": 1, "samples": [sample], "observed_value": QUOTED}
    halts: list[HaltDetail] = [
        TooManyDeadLetters(1, 2, 2, {"email_pattern": 2}, (sample, {**sample, "stage": "check", "error_class": "x"})),
        BlockingCheckFailed(1, 2, 2, ({"check": "email_pattern", "table": "s.rows", "observed": observed},)),
        BlockingCheckFailed(1, 2, 2, ({"check": "message_decodes", "table": "s.rows", "observed": observed},)),
        AccumulateRefused(QUOTED),
        KeepsFailing(10, "RowRefused", QUOTED),
        UnknownHalt("later", {"error": QUOTED}),
    ]
    for halt in halts:
        shown = stored_halt(PEOPLE, halt)
        assert QUOTED not in str(shown.to_json())
        assert shown.code == halt.code
        assert stored_halt(contract(field("email"), field("country")), halt) == halt
    assert "offset" in str(stored_halt(PEOPLE, halts[0]).to_json())
    placed = BlockingCheckFailed(
        1, 2, 2, ({"check": "r", "table": "s.rows", "observed": {"samples": [{"partition": 0, "offset": 7}]}},)
    )
    assert stored_halt(PEOPLE, placed) == placed
    of_an_older_version = {"samples": [{"email": QUOTED, "partition": 0, "offset": 7}]}
    older = replace(placed, checks=({"check": "r", "table": "s.rows", "observed": of_an_older_version},))
    assert stored_halt(PEOPLE, older) == placed
    new = KeepsFailing(10, "SchemasNotGiven", "the registry does not give schema 7", quotes_nothing=True)
    assert stored_halt(PEOPLE, new) == new


def test_check_results_in_the_ledger_are_reported_as_the_current_contract_allows() -> None:
    rule = BatchRule("of_emails", "s.rows", "ExpectColumnMostCommonValueToBeInSet", {"column": "email"}, "warning", "")
    table = replace(PEOPLE.row_table, batch_rules=(rule,))
    people = replace(PEOPLE, tables=(table,))
    observed = {"observed_value": QUOTED, "samples": [{"email": QUOTED, "partition": 0, "offset": 7}]}
    checks = [CheckResult("of_emails", "s.rows", "warning", False, observed)]
    (shown,) = stored_checks(people, checks)
    assert shown == replace(checks[0], observed={"observed_value": HIDDEN, "samples": [{"partition": 0, "offset": 7}]})
    assert stored_checks(contract(field("email"), field("country")), checks) == tuple(checks)


@pytest.mark.parametrize("of", [PEOPLE, None, contract(field("email"), field("country"))])
def test_an_error_of_a_contract_that_classifies_has_no_cause_and_no_text_of_others(of: Contract | None) -> None:
    hides, cause = of is None or classified(of).any, ValueError(QUOTED)
    with pytest.raises(BadInput) as refused, redacting(of):
        raise quoting(BadInput, f"the transform fails: {QUOTED}", "the transform fails") from cause
    assert (QUOTED in str(refused.value), refused.value.__cause__ is None) == (of is not PEOPLE, hides)
    with (
        pytest.raises(InternalError, match="In verify p: ValueError at ") as bug,
        redacting(of, partial(InternalError.in_command, "verify p")),
    ):
        raise cause
    shown = "".join(traceback.format_exception(bug.value))
    assert (QUOTED in shown, bug.value.__cause__ is None) == (not hides, hides)
    with pytest.raises(ValueError, match=QUOTED), redacting(of):
        raise cause


@pytest.mark.parametrize("place", ["ledger", "staging", "table"])
@pytest.mark.parametrize("state", ["23505", "22P02", "P0001", "42804", "57P01"])
def test_an_error_of_postgres_quotes_nothing_outside_the_block_or_the_task(state: str, place: Place) -> None:
    error = psycopg.errors.lookup(state)(f"Key (email)=({QUOTED}) already exists")
    with pytest.raises(TidegateError) as hidden, redacting(PEOPLE), database_errors(place):
        raise error
    assert QUOTED not in "".join(traceback.format_exception(hidden.value))
    quotes = as_ours(error, place)
    assert type(hidden.value) is type(quotes)
    envelope = str(to_envelope(quotes, "00ff", hides=True))
    assert QUOTED not in envelope + str(from_envelope(envelope, "00ff"))
    again = pickle.loads(pickle.dumps(quotes))  # noqa: S301  # our own
    assert str(again.quoting_nothing()) == str(quotes.quoting_nothing()) == str(hidden.value)


@pytest.mark.parametrize("within", [None, b"PL/pgSQL function route() line 3 at EXECUTE"])
def test_a_missing_right_is_named_unless_a_function_made_the_statement(within: bytes | None) -> None:
    given: Any = {DiagnosticField.MESSAGE_PRIMARY: b"permission denied for table " + QUOTED.encode()}
    given |= {DiagnosticField.SQLSTATE: b"42501"} | ({} if within is None else {DiagnosticField.CONTEXT: within})
    with pytest.raises(BadInput, match="42501") as denied, redacting(PEOPLE), database_errors():
        raise psycopg.errors.InsufficientPrivilege("permission denied", info=given)
    assert (QUOTED in str(denied.value)) == (within is None)


def test_an_error_is_shown_where_all_that_is_classified_was_hidden_when_it_was_recorded() -> None:
    names = classified(PEOPLE).names
    assert stored_error(PEOPLE, QUOTED, names) == QUOTED
    assert stored_error(PEOPLE, QUOTED, ["*"]) == QUOTED
    assert stored_error(PEOPLE, None, None) is None
    for hidden in (None, [], [*names][1:]):
        assert QUOTED not in (stored_error(PEOPLE, QUOTED, hidden) or "")
    assert stored_error(contract(field("email"), field("country")), QUOTED, None) == QUOTED
