"""`--reason`: what changes a pipeline for good is recorded with it, the user and the time."""

import typer


def required_reason(execute: bool, reason: str | None) -> str:
    """`reason` as it is recorded; empty without --execute, which refuses to do anything without one."""
    given = (reason or "").strip()
    if execute and not given:
        raise typer.BadParameter("--execute needs --reason, which is recorded with the user and the time")
    return given
