"""The faults that can be measured, by name, with their requirements on the topic, the brokers and the producer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.producers import recipes
from bench.producers.recipes import Field
from platform_defs.producer_options.presets import PRESETS, Preset

SHORT_MS = 3_000  # how long a message may take while all brokers are away


@dataclass(frozen=True)
class Fault:
    """A fault. `recipe` causes it in the middle of a stream, and returns True if it happened."""

    recipe: Callable[[Field], bool]
    replicas: int = 3
    in_sync: int = 2  # min.insync.replicas
    proxied: bool = False
    one_down: bool = False  # broker 3 is down in all rounds
    options: Mapping[str, int] = field(default_factory=dict[str, int])  # of the producer, in place of the preset's
    transactions: bool = False  # only these can meet it

    @property
    def name(self) -> str:
        return self.recipe.__name__

    @property
    def sentence(self) -> str:
        """The fault in one or two sentences."""
        return " ".join((self.recipe.__doc__ or "").split("\n\n")[0].split())

    def concerns(self, preset: Preset) -> bool:
        """Return True if the fault can affect a producer of this preset."""
        return not self.transactions or preset.waits == "commit"


_EVERY = (
    Fault(recipes.none),
    Fault(recipes.broker_kill),
    Fault(recipes.leader_loss),
    Fault(recipes.unclean, replicas=2, in_sync=1),
    Fault(recipes.cut_answers, proxied=True),
    Fault(recipes.isr_flap, proxied=True, one_down=True),
    Fault(recipes.away, options={"message.timeout.ms": SHORT_MS}),
    Fault(recipes.zombie, transactions=True),
)
FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in _EVERY}


def pairs(presets: list[str], faults: list[str]) -> list[tuple[Fault, list[Preset]]]:
    """Return the faults and the presets that each can affect, in the order of the tables; "all" names all of them."""
    chosen = [preset for name, preset in PRESETS.items() if {name, "all"} & set(presets)]
    wanted = [fault for name, fault in FAULTS.items() if {name, "all"} & set(faults)]
    found = [(fault, [preset for preset in chosen if fault.concerns(preset)]) for fault in wanted]
    return [(fault, concerned) for fault, concerned in found if concerned]
