"""`tidegate presets`: the ways to produce, the promise of each, and the options that keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, print_table

if TYPE_CHECKING:
    from platform_defs.producer_options.presets import Preset


def presets(
    name: str | None = typer.Argument(None, help="A preset, such as synchronous.", show_default="all"),
    output: OutputOption = Output.human,
) -> None:
    """Show producer presets: what each promises, and which options it sets.

    \b
    JSON: a list; with NAME, one element of it:
      name, promise
      default  whether a contract without `producer` uses it
      waits    never, callback, each or commit
      options  name, value, default (the library's), reason
    """
    from platform_defs.producer_options.config import preset_named
    from platform_defs.producer_options.presets import PRESETS

    found = [*PRESETS.values()] if name is None else [preset_named(name)]
    if output is Output.json:
        written = [_written(preset) for preset in found]
        print_json(written if name is None else written[0])
    elif name is None:
        _print_all(found)
    else:
        _print_one(found[0])


def _written(preset: Preset) -> dict[str, Any]:
    from platform_defs.producer_options.options import OPTIONS
    from platform_defs.producer_options.presets import DEFAULT

    options = [
        {"name": name, "value": value, "default": OPTIONS[name].default, "reason": preset.reasons[name]}
        for name, value in preset.options.items()
    ]
    return {
        "name": preset.name,
        "promise": preset.promise,
        "default": preset.name == DEFAULT,
        "waits": preset.waits,
        "options": options,
    }


def _print_all(presets: list[Preset]) -> None:
    shown = ("acks", "enable.idempotence", "max.in.flight", "linger.ms", "compression.type")
    rows = [(preset.name, *(_value(preset.options.get(name)) for name in shown), preset.waits) for preset in presets]
    print_table(("preset", "acks", "idempotent", "in flight", "linger", "codec", "waits"), rows)
    print_line("")
    print_fields({preset.name: preset.promise for preset in presets})
    print_line("\nTo see each option and the reason for its value: tidegate presets NAME")


def _print_one(preset: Preset) -> None:
    written = _written(preset)
    print_line(f"{preset.name}: {preset.promise}{' (the default)' if written['default'] else ''}")
    print_line(f"waits: {_WAITS[preset.waits]}")
    for one in written["options"]:
        print_line(
            f"\n{one['name']}: {_value(one['value'])} (the library: {_value(one['default'])})\n  {one['reason']}"
        )


def _value(value: object) -> str | None:
    """Return the value as librdkafka's documentation writes it."""
    return None if value is None else str(value).lower()


_WAITS = {
    "never": "never: a message counts as delivered once it is handed to the network",
    "callback": "for no message: a callback reports each one while the next ones are sent",
    "each": "for each message, before the next is sent",
    "commit": "at each commit of a transaction",
}
