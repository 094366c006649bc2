"""`tidegate contract validate`: all mistakes of contracts and transforms, without a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_defs.contract.reader.catalogue import Catalogue
    from platform_defs.errors import Mistake


@dataclass(frozen=True)
class Validated:
    """A contract's file, its pipeline if it could be read, its mistakes, and what a user may not have intended."""

    path: Path
    pipeline: str | None
    mistakes: Sequence[Mistake]
    notices: Sequence[Mistake] = ()


def validate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|FOLDER|PIPELINE]...",
            help="Contract files, folders with contracts, or pipelines.",
            show_default="all contracts",
        ),
    ] = None,
    output: OutputOption = Output.human,
) -> None:
    """Read contracts, with their transforms and schema files, and report all
    mistakes.

    The command needs no server. A mistake in one field, column or rule does
    not keep the others from being checked. Parts that depend on each other are
    compared once each of them is valid. The exit code is 1 if there is a
    mistake. A notice is about something that is valid and perhaps not
    intended, such as a field of the message without a column.

    \b
    JSON: valid, contracts:
      file, pipeline (null: it could not be read)
      mistakes  file, line, field, message of each
      notices   likewise
    """
    validated = _validate(names or ())
    wrong = [result for result in validated if result.mistakes]
    if output is Output.json:
        print_json({"valid": not wrong, "contracts": list(map(_entry, validated))})
    else:
        for result in validated:
            lines = map(str, result.mistakes) if result.mistakes else [f"{result.path}: {result.pipeline} is valid"]
            print_line("\n".join([*lines, *(f"{notice} (a notice)" for notice in result.notices)]))
        if not validated:
            print_line("There are no contracts.")
    if wrong:
        raise typer.Exit(1)


def _validate(names: Sequence[str]) -> list[Validated]:
    """Return the results for these files, folders and pipelines, by path. Contracts in the contracts' folder are also
    compared with each other. Raises BadInput for a name that matches no contract.
    """
    from platform_defs.contract.reader.catalogue import Contracts, load_pipelines, read_files
    from platform_defs.settings.contracts import read_contracts

    catalogue = read_contracts()
    paths = {name for name in names if Path(name).exists() or "/" in name or name.endswith((".yaml", ".yml"))}
    pipelines = [name for name in names if name not in paths or any(item.is_called(name) for item in catalogue.broken)]
    files = {file for name in names if name not in pipelines for file in _files(Path(name))}
    chosen = catalogue.chosen(pipelines) if pipelines or not names else Contracts((), ())
    catalogued = Contracts(
        tuple(item for item in catalogue.good if item in chosen.good or _absolute(item.path) in files),
        tuple(item for item in catalogue.broken if item in chosen.broken or _absolute(item.path) in files),
    )
    uncatalogued = read_files(sorted(files - {_absolute(item.path) for item in (*catalogue.good, *catalogue.broken)}))
    validated = [result for contracts in (catalogued, uncatalogued) for result in _results(load_pipelines(contracts))]
    return sorted(validated, key=lambda result: result.path)


def _absolute(path: Path | None) -> Path:
    return (path or Path()).resolve()


def _files(path: Path) -> Sequence[Path]:
    """Return the contracts' files that the path means. Raises BadInput for a folder without any."""
    from platform_defs.contract.reader.catalogue import contract_files
    from platform_defs.errors import BadInput

    path = path.resolve()
    if not path.is_dir():
        return [path]
    if not (files := contract_files(path)):
        raise BadInput("contains no contract (<domain>/<name>.odcs.yaml)", file=str(path))
    return files


def _results(catalogue: Catalogue) -> Sequence[Validated]:
    from platform_defs.contract.reader.odcs import fields_without_column
    from platform_defs.errors import BadInput
    from platform_defs.formats.writer_fit import refuse_schema_file

    validated = [
        Validated(item.path, item.contract and item.contract.pipeline, item.error.mistakes) for item in catalogue.broken
    ]
    for pipeline in catalogue.pipelines:
        path = pipeline.contract.path or Path()
        try:
            refuse_schema_file(pipeline.contract)
        except BadInput as error:
            validated.append(Validated(path, pipeline.name, error.mistakes))
        else:
            validated.append(Validated(path, pipeline.name, (), fields_without_column(pipeline)))
    return validated


def _entry(result: Validated) -> dict[str, Any]:
    def listed(mistakes: Sequence[Mistake]) -> list[dict[str, Any]]:
        return [{"file": m.file, "line": m.line, "field": m.field, "message": m.problem} for m in mistakes]

    return {
        "file": str(result.path),
        "pipeline": result.pipeline,
        "mistakes": listed(result.mistakes),
        "notices": listed(result.notices),
    }
