"""The detail of a halt, as `tidegate resolve` and `tidegate plan` show it to a person."""

import pytest

from platform_defs.cli.halt_detail import print_halt_detail
from platform_defs.errors.halts import (
    BlockingCheckFailed,
    HaltDetail,
    PartitionSpan,
    RegistrySwitched,
    RetentionPassed,
    TooManyDeadLetters,
    UnknownHalt,
)


def printed(detail: HaltDetail, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_halt_detail(detail.to_json())
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_samples_are_a_table_and_names_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    sample = {"partition": 0, "offset": 4, "field": None, "message": "not JSON", "stage": "decode"}
    other = {**sample, "offset": 5, "field": "order_id", "error_class": "currency_enum"}
    lines = printed(
        TooManyDeadLetters(
            batch_id=7,
            messages=10,
            dead_letters=2,
            by_reason={"currency_enum": 1, "no_json": 1},
            samples=(sample, other),
        ),
        capsys,
    )
    assert lines == [
        "batch_id      7",
        "messages      10",
        "dead_letters  2",
        "by_reason     currency_enum 1",
        "              no_json 1",
        "samples:",
        "partition  offset  field     message   stage   error_class",
        "0          4       -         not JSON  decode  -",
        "0          5       order_id  not JSON  decode  currency_enum",
    ]


def test_what_a_failed_check_observed_is_shown_with_its_places(capsys: pytest.CaptureFixture[str]) -> None:
    observed = {"failed": 2, "observed_value": None, "samples": [{"partition": 0, "offset": 4}]}
    check = {"check": "amount_positive", "table": "bank.postings", "observed": observed}
    assert printed(BlockingCheckFailed(batch_id=7, messages=10, rows=9, checks=(check, check)), capsys)[3:] == [
        "tries     0",
        "checks:",
        *2
        * [
            "check           amount_positive",
            "table           bank.postings",
            "failed          2",
            "observed_value  -",
            "samples:",
            "partition  offset",
            "0          4",
        ],
    ]


def test_no_detail_is_shown_as_a_python_object(capsys: pytest.CaptureFixture[str]) -> None:
    details: list[HaltDetail] = [
        RetentionPassed((PartitionSpan(2, 2, 5),)),
        RegistrySwitched("main", ("1", "22")),
        UnknownHalt("later", {"a_b": {"c_d": [1, None, {"e": True}]}, "f": [], "g": None}),
    ]
    shown = "\n".join("\n".join(printed(detail, capsys)) for detail in details)
    assert not {"{", "}", "[", "]", "'", "None"} & set(shown.replace("None", "{"))
    assert "partition  from_offset  until_offset\n2          2            5" in shown
    assert "keys      1, 22" in shown
    assert "a_b  c_d 1, -, e True" in shown
