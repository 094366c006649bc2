"""`--reason` and `--expect`: a lasting change of a pipeline is recorded with the reason, the user and the time, and
must equal the change that was shown before.
"""

from typing import Annotated

import typer

from platform_defs.errors import BadInput

ReasonOption = Annotated[
    str | None,
    typer.Option(
        help="The reason for the change; recorded with the user and the time.", show_default=False, metavar="TEXT"
    ),
]
ExpectOption = Annotated[
    str | None,
    typer.Option(
        help="The fingerprint that was shown; if it has changed since, fail and change nothing.",
        show_default=False,
        metavar="FINGERPRINT",
    ),
]


def required_reason(execute: bool, reason: str | None) -> str:
    """Return `reason` as it is recorded; empty without --execute. Raises typer.BadParameter for --execute without a
    reason.
    """
    given = (reason or "").strip()
    if execute and not given:
        raise typer.BadParameter("--execute requires --reason, which is recorded with the user and the time")
    return given


def refuse_unexpected(pipeline: str, expect: str | None, fingerprint: str, command: str) -> None:
    """Raise BadInput if --expect was given, and the pipeline is no longer as `command` showed it."""
    if expect is not None and expect != fingerprint:
        raise BadInput(
            f"{pipeline} has changed since it was shown (its fingerprint is now {fingerprint}, not {expect}); "
            f"nothing was changed. Check again: {command}"
        )
