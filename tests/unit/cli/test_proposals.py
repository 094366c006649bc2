"""A change is shown with the command that makes exactly this change, and an outdated one is refused."""

import json

import pytest
import typer

from platform_defs.cli.output import Output, print_answer, print_line
from platform_defs.cli.proposals import print_proposal, refuse_unexpected, required_reason
from platform_defs.errors import BadInput

SHOWS = "tidegate resolve orders --from end"
MAKES = f"{SHOWS} --execute --expect abc --reason '...'"


def test_a_proposal_has_the_command_that_makes_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_proposal({"resolved": False}, "To resolve it", SHOWS, "abc", Output.human)
    assert capsys.readouterr().out == f"To resolve it: {MAKES}\n"
    print_proposal({"resolved": False}, "To resolve it", SHOWS, "abc", Output.json)
    assert json.loads(capsys.readouterr().out) == {"resolved": False, "command": MAKES}


def test_another_change_than_the_one_that_was_shown_is_refused() -> None:
    refuse_unexpected("orders", None, "abc", SHOWS)
    refuse_unexpected("orders", "abc", "abc", SHOWS)
    with pytest.raises(BadInput, match=f"orders has changed since it was shown.*Check again: {SHOWS}"):
        refuse_unexpected("orders", "abd", "abc", SHOWS)


def test_a_change_is_made_only_with_a_reason() -> None:
    assert (required_reason(False, None), required_reason(True, " too slow ")) == ("", "too slow")
    for reason in (None, "", " "):
        with pytest.raises(typer.BadParameter, match="--execute requires --reason"):
            required_reason(True, reason)


def test_an_answer_is_one_document_or_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in ("two rows", lambda: print_line("two rows")):
        print_answer({"rows": 2}, shown, Output.human)
        assert capsys.readouterr().out == "two rows\n"
        print_answer({"rows": 2}, shown, Output.json)
        assert json.loads(capsys.readouterr().out) == {"rows": 2}
