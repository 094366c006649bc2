"""The note about a topic that Dagster writes: the runs that it names, and the errors worth another try."""

import pytest

from platform_defs.errors import BadInput, BrokerAway, ProducerBroken, ProducerFenced, TidegateError, TransactionAborted
from platform_defs.producers.written_topics import RUNS, may_be_retried, noted, written_by


def test_a_note_names_the_last_runs_and_always_fits() -> None:
    note, runs = None, [f"{number:036}" for number in range(3 * RUNS)]
    for run in runs:
        assert written_by(note, run) is None
        note = noted(note, run, 10**12)
        assert len(note) <= 4096
    kept = [run for run in runs if written_by(note, run) is not None]
    assert kept == runs[-RUNS:]


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (TransactionAborted("", outcome="poison"), False),
        (TransactionAborted("", outcome="not_written"), True),
        (ProducerBroken(""), True),
        (ProducerFenced(""), False),
        (BrokerAway(""), True),
        (BadInput(""), False),
    ],
)
def test_what_another_try_may_answer_is_tried_again(error: TidegateError, may: bool) -> None:
    assert may_be_retried(error) is may
