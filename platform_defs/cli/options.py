"""The options that several commands have."""

from typing import Annotated

import typer

DEFAULT_LIMIT = 20  # messages that are listed, unless --limit says otherwise

PipelineArgument = Annotated[str, typer.Argument(help="A pipeline, such as bank_transfers.")]
PipelinesArgument = Annotated[
    list[str], typer.Argument(metavar="PIPELINE", help="Pipelines, such as bank_transfers.", show_default=False)
]
AnyPipelinesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="PIPELINE", help="Pipelines, such as bank_transfers.", show_default="all")
]
TopicOrPipelineArgument = Annotated[
    str,
    typer.Argument(metavar="TOPIC|PIPELINE", help="A topic or a pipeline, such as bank.transfers or bank_transfers."),
]
PartitionsOption = Annotated[
    list[int] | None,
    typer.Option("--partition", min=0, help="Only this partition; may be repeated.", show_default="all"),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset", help="A producer preset, such as synchronous (see tidegate presets).", show_default="the contract's"
    ),
]
_EXECUTE = "Make the change; without this option, only show it."
ExecuteOption = Annotated[bool, typer.Option("--execute", help=_EXECUTE)]
ExecuteWithReasonOption = Annotated[bool, typer.Option("--execute", help=f"{_EXECUTE} Requires --reason.")]
ExecuteAsShownOption = Annotated[bool, typer.Option("--execute", help=f"{_EXECUTE} Requires --reason and --expect.")]
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
