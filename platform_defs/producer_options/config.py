"""The options of a producer: preset < contract < environment < command line. None contradict each other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from platform_defs.errors import BadInput
from platform_defs.producer_options.contradictions import contradiction
from platform_defs.producer_options.options import OPTIONS, PROMISED, Value, own_name
from platform_defs.producer_options.partitioners import OF_TOPICS_THAT_EXIST
from platform_defs.producer_options.presets import DEFAULT, PRESETS, Preset
from platform_defs.producer_options.values import read_option

NO_OPTIONS: Mapping[str, Value] = {}
NOTHING_SET: Mapping[str, str] = {}


@dataclass(frozen=True)
class Chosen:
    """A preset and the resolved options."""

    preset: Preset
    options: Mapping[str, Value]  # by our names, `partitioner` among them

    @property
    def partitioner(self) -> str:
        return str(self.options["partitioner"])


@dataclass(frozen=True)
class Producing:
    """A contract's settings for producers of its topic: a preset, and options in place of the preset's."""

    preset: str = DEFAULT
    options: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def chosen(
        self,
        preset: str | None = None,
        environment: Mapping[str, str] = NOTHING_SET,
        given: Mapping[str, Value] = NO_OPTIONS,
    ) -> Chosen:
        """Return the options of a producer of the contract's topic; `preset` replaces the contract's."""
        contract = {"partitioner": OF_TOPICS_THAT_EXIST, **self.options}
        return choose(preset or self.preset, contract, environment, given)


def preset_named(name: object) -> Preset:
    """Return the preset. Raises BadInput if there is none of that name."""
    if (found := PRESETS.get(str(name))) is not None:
        return found
    close = get_close_matches(str(name), PRESETS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"the presets are {', '.join(PRESETS)}"
    raise BadInput(f"there is no preset {name!r}; {hint}", field=str(name))


def choose(
    preset: str,
    contract: Mapping[str, Value] = NO_OPTIONS,
    environment: Mapping[str, str] = NOTHING_SET,
    given: Mapping[str, Value] = NO_OPTIONS,
) -> Chosen:
    """Return the options of a producer. `environment`: those of TIDEGATE_KAFKA_*, except any that a promise depends on.

    Raises BadInput, whose field is the option, if they contradict each other.
    """
    found = preset_named(preset)
    tuned = [(name, text) for name, text in environment.items() if own_name(name) in {*OPTIONS} - {*PROMISED}]
    options = {**found.options, **contract, **dict(read_option(name, text) for name, text in tuned), **given}
    if (wrong := refusal(found, options)) is not None:
        option, sentence = wrong
        raise BadInput(f"{sentence} (preset {found.name})", field=option)
    return Chosen(found, options)


def refusal(preset: Preset, options: Mapping[str, Value]) -> tuple[str, str] | None:
    """Return the option that the preset cannot be used with, and the reason; None if there is none."""
    transactional = preset.waits == "commit"
    if "transactional.id" in options and not transactional:
        return "transactional.id", "transactional.id requires the preset transactional, which opens transactions"
    return contradiction({"transactional.id": "any", **options} if transactional else options)


def unused(environment: Iterable[str]) -> list[str]:
    """Return the options of TIDEGATE_KAFKA_* that are ignored, since they would change a preset's promise."""
    return sorted(name for name in environment if own_name(name) in PROMISED)
