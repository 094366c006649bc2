"""Errors carry data and survive a process boundary; halts stay readable in ledgers of other versions."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from platform_defs import errors
from platform_defs.contract.model.contract import CheckResult
from platform_defs.errors import BadInput, Halt, TidegateError
from platform_defs.errors.halts import DETAILS, HaltDetail, PartitionSpan, UnknownHalt, read_detail

SAMPLE: dict[str, dict[str, Any]] = {  # details as in ledgers since the first version, by today's halt code
    "topic_recreated": {"was": "id 1", "is": "id 2"},
    "cluster_switched": {"was": "here", "is": "there"},
    "topic_changed": {"was": "orders", "is": "orders.v2"},
    "retention_passed": {"ranges": [{"partition": 1, "from_offset": 2, "until_offset": 5}]},
    "log_truncated": {"ranges": [{"partition": 0, "from_offset": 7, "until_offset": 9}]},
    "partition_missing": {"partitions": [9]},
    "too_many_dead_letters": {
        "batch_id": 4,
        "messages": 7,
        "dead_letters": 6,
        "by_reason": {"InvalidJson": 6},
        "samples": [{"partition": 0, "offset": 3, "field": None, "message": "not JSON"}],
    },
    "blocking_check_failed": {
        "batch_id": 4,
        "messages": 7,
        "rows": 6,
        "checks": [{"check": "sums_to_zero", "table": "s.t", "observed": {"observed_value": 1}}],
        "tries": 8,
    },
    "accumulate_refused": {"error": "violates check constraint"},
    "keeps_failing": {"tries": 10, "error_class": "LedgerAway", "error": "statement timeout"},
    "registry_switched": {"registry": "default", "keys": ["7", "12"]},
}
CUT_AND_WRITTEN_ON = {"error": "t[1] was truncated", "partitions": [1]}
LATEST = {**SAMPLE["too_many_dead_letters"], "latest_messages": 20, "latest_dead_letters": 12}
EXAMPLES: list[TidegateError] = [
    errors.Fenced.not_the_owner("p", 3),
    errors.LedgerAway("gone", sqlstate="57P01"),
    errors.RegistryAway.asked(
        "http://registry:8081", "schema 7", 30.0, "connection refused", None, "Check it", refused=False
    ),
    errors.OffsetsUnavailable("out of range"),
    errors.RowRefused("null value", error_class="NotNullViolation"),
    errors.TransformFailed("division by zero", of_data=True),
    errors.InternalError.of("a batch of p", KeyError("x")),
    errors.GateFailed("failed", [CheckResult("sum", "s.t", "blocking", False, {"observed_value": 1})]),
    errors.NotDelivered("timed out", code=-192, reason="_MSG_TIMED_OUT", outcome="unknown"),
    errors.TransactionAborted("aborted", code=10, reason="MSG_SIZE_TOO_LARGE", outcome="poison"),
    *(Halt("p", read_detail(code, stored), "seen.") for code, stored in SAMPLE.items()),
    BadInput("no such column", file="a.odcs.yaml", line=3, field="amount"),
    errors.SeveralMistakes([errors.Mistake("no such column", "a", 3, "x"), errors.Mistake("no such type", "a", 2)]),
    errors.TopicMissing.named("t"),
]


DRAWN = [line.strip("│├└─ ").split()[0] for line in (errors.__doc__ or "").splitlines() if "─" in line]


def tree(kind: type[TidegateError] = TidegateError) -> Iterator[type[TidegateError]]:
    yield kind
    children = [child for child in kind.__subclasses__() if child.__module__.startswith(errors.__name__)]
    for child in sorted(children, key=lambda child: DRAWN.index(child.__name__)):
        yield from tree(child)


def example(kind: type[TidegateError]) -> list[TidegateError]:
    """Return the examples of this class, or an error with nothing but a sentence."""
    return [item for item in EXAMPLES if type(item) is kind] or [kind("a sentence")]


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.__name__)
def test_every_error_comes_back_from_a_pickle_as_it_went(kind: type[TidegateError]) -> None:
    for error in example(kind):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert [kind.__name__ for kind in tree()][1:] == DRAWN


def test_bad_input_says_where_and_keeps_the_parts() -> None:
    wrong = BadInput("no such column", file="a.odcs.yaml", line=3, field="amount")
    assert str(wrong) == "a.odcs.yaml:3 (amount): no such column"
    assert (wrong.problem, wrong.file, wrong.line, wrong.field) == ("no such column", "a.odcs.yaml", 3, "amount")


@pytest.mark.parametrize(
    ("code", "stored"),
    [*SAMPLE.items(), ("log_truncated", CUT_AND_WRITTEN_ON), ("too_many_dead_letters", LATEST)],
)
def test_a_halt_of_an_existing_ledger_is_read_and_written_back_unchanged(code: str, stored: dict[str, Any]) -> None:
    detail = read_detail(code, stored)
    assert type(detail) is DETAILS[code]
    assert (detail.code, detail.to_json()) == (code, stored)
    assert detail.seen in str(Halt.remembered("p", code, stored))


def test_every_halt_code_has_its_dataclass() -> None:
    assert list(DETAILS) == list(SAMPLE)


@pytest.mark.parametrize("code", DETAILS)
@pytest.mark.parametrize("stored", [None, {}, {"of_a_later_version": [1]}])
def test_a_halt_with_missing_or_unknown_keys_can_be_read(code: str, stored: dict[str, Any] | None) -> None:
    detail: HaltDetail = read_detail(code, stored)
    assert detail == DETAILS[code]()
    later = read_detail(code, SAMPLE[code] | {"of_a_later_version": [1]})
    assert later == read_detail(code, SAMPLE[code])


def test_a_code_of_another_version_is_shown_as_it_is() -> None:
    halt = Halt.remembered("p", "moon_phase", {"moon": "full"})
    assert halt.detail == UnknownHalt("moon_phase", {"moon": "full"})
    assert (halt.code, halt.detail.to_json()) == ("moon_phase", {"moon": "full"})


def test_a_range_is_written_one_way() -> None:
    assert str(PartitionSpan(1, 0, 5)) == "partition 1 [0, 5)"
