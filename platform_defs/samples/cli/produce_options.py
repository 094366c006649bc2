"""The settings with which `tidegate produce` sends: --preset, --partitioner and --option over the contract's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from platform_defs.errors import BadInput
from platform_defs.producer_options.values import read_option

if TYPE_CHECKING:
    from platform_defs.contract.model.contract import Contract
    from platform_defs.producer_options.config import Chosen
    from platform_defs.producer_options.options import Value


def chosen_for(
    contract: Contract,
    preset: str | None,
    partitioner: str | None,
    options: Sequence[str],
    environment: Mapping[str, str],
) -> Chosen:
    """Return the preset and options to send with. Raises typer.BadParameter, or BadInput for a contradiction."""
    given = dict(_pair(text) for text in options)
    if partitioner is not None:
        given.update([_read("partitioner", partitioner)])
    return contract.producing.chosen(preset, environment, given)


def _pair(text: str) -> tuple[str, Value]:
    name, sign, value = text.partition("=")
    if not sign:
        raise typer.BadParameter(f"--option is NAME=VALUE, such as linger.ms=50, not {text!r}")
    return _read(name, value)


def _read(name: str, value: str) -> tuple[str, Value]:
    try:
        return read_option(name, value)
    except BadInput as error:
        raise typer.BadParameter(error.problem) from None
