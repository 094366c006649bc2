"""A lasting change is shown first, with the command that makes exactly this change: `--expect` has its fingerprint, and
`--reason` is recorded with the user and the time.
"""

from collections.abc import Mapping
from typing import Any

import typer

from platform_defs.cli.output import Output, print_answer
from platform_defs.errors import BadInput


def required_reason(execute: bool, reason: str | None) -> str:
    """Return `reason` as it is recorded; empty without --execute. Raises typer.BadParameter for --execute without a
    reason.
    """
    given = (reason or "").strip()
    if execute and not given:
        raise typer.BadParameter("--execute requires --reason, which is recorded with the user and the time")
    return given


def print_proposal(answer: Mapping[str, Any], purpose: str, command: str, fingerprint: str, output: Output) -> None:
    """Print a change that was not made: the document, or a sentence, with `command` as it makes the change."""
    command += f" --execute --expect {fingerprint} --reason '...'"
    print_answer({**answer, "command": command}, f"{purpose}: {command}", output)


def refuse_unexpected(of: str, expect: str | None, fingerprint: str, command: str) -> None:
    """Raise BadInput if --expect was given, and the pipeline, group or topic is no longer as `command` showed it."""
    if expect is not None and expect != fingerprint:
        raise BadInput(
            f"{of} has changed since it was shown (its fingerprint is now {fingerprint}, not {expect}); "
            f"nothing was changed. Check again: {command}"
        )
