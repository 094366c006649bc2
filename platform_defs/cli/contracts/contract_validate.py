"""`tidegate contract validate`: all mistakes of contracts and transforms, without a server."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_defs.contract.model.pipeline import Pipeline
    from platform_defs.errors import Mistake

Result = tuple[Path, str | None, "Sequence[Mistake]"]  # a contract's file, its pipeline, and its mistakes


def validate(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A contract's file.", show_default="all contracts")
    ] = None,
    output: OutputOption = Output.human,
) -> None:
    """Read contracts, and the transforms and schema files beside them, and report
    all mistakes.

    The command needs no server. A mistake in one field, column or rule does
    not keep the others from being checked. Parts that depend on each other are
    compared once each of them is valid. The exit code is 1 if there is a
    mistake.

    \b
    JSON: valid, contracts:
      file, pipeline (null: it could not be read)
      mistakes  file, line, field, message of each
    """
    found = _all() if file is None else [_one(file)]
    wrong = [result for result in found if result[2]]
    if output is Output.json:
        print_json({"valid": not wrong, "contracts": [_entry(*result) for result in found]})
    else:
        for path, pipeline, mistakes in found:
            print_line("\n".join(map(str, mistakes)) if mistakes else f"{path}: {pipeline} is valid")
    if wrong:
        raise typer.Exit(1)


def _all() -> list[Result]:
    from assets import find_all

    catalogue = find_all()
    found = [_checked(each.contract.path or Path(), each) for each in catalogue.pipelines]
    found += [(item.path, item.contract and item.contract.pipeline, item.error.mistakes) for item in catalogue.broken]
    return sorted(found, key=itemgetter(0))


def _one(file: Path) -> Result:
    """Return the result of one file. One among the contracts is also compared with the others; any other may be in a
    folder of any name.
    """
    from platform_defs.contract.model.contract import SUFFIX
    from platform_defs.contract.reader.catalogue import load_pipeline
    from platform_defs.contract.reader.odcs import load
    from platform_defs.errors import BadInput
    from resources.process.settings import settings

    path = file.resolve()
    among = path.is_relative_to(settings().contracts_folder.resolve())
    for found, pipeline, mistakes in _all() if among else ():
        if found.resolve() == path:
            return file, pipeline, mistakes
    try:
        if path.is_file() and not path.name.endswith(SUFFIX):
            raise BadInput(f"a contract is called <name>{SUFFIX}; rename this file", file=str(file))
        return _checked(file, load_pipeline(load(path)))
    except BadInput as error:
        return file, None, error.mistakes


def _checked(file: Path, pipeline: Pipeline) -> Result:
    """Return the result of a contract that could be read: its schema file may still not fit it."""
    from platform_defs.errors import BadInput
    from platform_defs.formats.writer_fit import refuse_schema_file

    try:
        refuse_schema_file(pipeline.contract)
    except BadInput as error:
        return file, pipeline.name, error.mistakes
    return file, pipeline.name, ()


def _entry(path: Path, pipeline: str | None, mistakes: Sequence[Mistake]) -> dict[str, Any]:
    listed = [{"file": m.file, "line": m.line, "field": m.field, "message": m.problem} for m in mistakes]
    return {"file": str(path), "pipeline": pipeline, "mistakes": listed}
