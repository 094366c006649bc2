"""`tidegate contract export`, `register` and `import`: from a contract to a schema, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from platform_defs.cli.options import PipelineArgument
from platform_defs.cli.output import Output, OutputOption, print_answer, print_error, print_json, print_line, print_text
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.contract.model.contract import Contract


def export(
    pipeline: PipelineArgument,
    language: Annotated[
        Literal["avro", "protobuf", "json"] | None,
        typer.Option("--format", help="The schema language.", show_default="the contract's format"),
    ] = None,
    assign: bool = typer.Option(False, "--assign", help="Assign a fieldNumber to each field without one, in the file."),
    output: OutputOption = Output.human,
) -> None:
    """Print the contract's message as an Avro, Protobuf or JSON schema.

    A Protobuf schema needs a fieldNumber on each field. With --assign, a field
    without one gets its number from the registered schema, or else the next
    number that the file, its git history, the ledger and the registry have
    never used. The numbers are written into the contract's file; its comments
    stay.

    \b
    JSON: pipeline, format, schema (its text), assigned:
      field, number, path_numbers (of the messages that lead to it)
    """
    from platform_defs.schemas.conversion.exporting import export_schema
    from platform_defs.settings.contracts import find_contract

    contract = find_contract(pipeline)
    given = list[dict[str, object]]()
    if assign:
        contract, given = _numbered(contract)
    kind = language or contract.format
    schema = export_schema(contract, kind)
    document = {"pipeline": pipeline, "format": kind, "schema": schema, "assigned": given}
    print_answer(document, lambda: print_text(schema), output)


def _numbered(contract: Contract) -> tuple[Contract, list[dict[str, object]]]:
    from platform_defs.schemas.conversion.number_fields import number_fields
    from platform_defs.stack.endpoints import ledger_if_any, registry_if_any

    done = number_fields(contract, ledger_if_any(), registry_if_any() if contract.wire.framed else None)
    for one in done.assigned:
        print_error(f"{one.field}: fieldNumber {'.'.join(map(str, (*one.path_numbers, one.number)))}")
    for name in done.unasked if done.assigned else ():
        print_error(f"{name} was not checked for field numbers used before: there is none")
    return done.contract, [asdict(one) for one in done.assigned]


def register(
    pipeline: PipelineArgument,
    file: Annotated[
        Path | None, typer.Option("--file", help="Register this schema instead, if messages of it fit the contract.")
    ] = None,
    output: OutputOption = Output.human,
) -> None:
    """Register the contract's schema under its subject.

    No run and no other command registers a schema. The command first asks the
    registry whether it would accept the schema, and shows the registry's
    reasons if it would not. The subject's compatibility is set to that of the
    contract. It is safe to run the command twice.

    \b
    JSON: pipeline, subject, key (the schema's id), level, new
    """
    from platform_defs.schemas.conversion.exchange import register as registered
    from platform_defs.settings.contracts import find_contract
    from platform_defs.stack.endpoints import registry_alone

    contract = find_contract(pipeline)
    done = registered(contract, registry_alone(), file)
    what = "Registered" if done.new else "Nothing to do: the schema is already registered"
    held = f" The subject's compatibility level is {done.level}." if done.level else ""
    print_answer({"pipeline": pipeline, **asdict(done)}, f"{what} as id {done.key} under {done.subject}.{held}", output)


def import_(
    subject: Annotated[
        str | None, typer.Option(help="A subject in the registry, such as bank.transfers-value.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A schema file: .avsc, .proto or .json.")] = None,
    record: Annotated[str, typer.Option(help="The record or message, if the schema has several.")] = "",
    topic: Annotated[str, typer.Option(help="The topic.", show_default="named after the subject or the file")] = "",
    domain: Annotated[str, typer.Option(help="The folder under assets/.", show_default="named after the topic")] = "",
    to: Annotated[
        Path | None, typer.Option("--to", help="The file to write.", show_default="assets/<domain>/<name>.odcs.yaml")
    ] = None,
    output: OutputOption = Output.human,
) -> None:
    """Create a contract from a schema in the registry or in a file.

    Names become lower-case columns, with the field's name as physicalName.
    Nested records are flattened. An array of single values becomes an array
    column; other arrays, maps and unions become json columns. The output and
    the file's comments list what was guessed and what was left out. Files that
    a .proto imports are read from its folder.

    \b
    JSON: file, pipeline, domain, topic, table, fields (how many), notes
    """
    from platform_defs.schemas.conversion.exchange import import_from_file, import_from_registry, write
    from platform_defs.schemas.conversion.importing import Wanted

    if (subject is None) == (file is None):
        raise typer.BadParameter("use either --subject or --file")
    wanted = Wanted(topic=topic, domain=domain, record=record)
    if subject is not None:
        from platform_defs.stack.endpoints import registry_alone

        made = import_from_registry(subject, registry_alone(), wanted)
    else:
        assert file is not None  # noqa: S101  # one of the two is given
        made = import_from_file(file, wanted)
    path = write(made, to)
    if output is Output.json:
        document = asdict(made)
        del document["text"], document["name"]
        print_json({"file": str(path), **document})
        return
    for note in made.notes:
        print_line(f"- {note}")
    print_line(
        f"{path} is a contract with {plural(made.fields, 'field')}. Review it; the next run of {made.pipeline} uses it."
    )
