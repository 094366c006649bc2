"""Generated messages of a contract, written with its messages' schemas: good ones with bad ones among them, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from platform_defs.contract.model.contract import Contract
from platform_defs.samples.samples import Sample, Samples
from platform_defs.schemas.writer_schemas import message_schemas

if TYPE_CHECKING:
    from platform_defs.settings.registry_address import Registry


class Source(Protocol):
    """Makes samples: of bare JSON (`Samples`), or of any format (`EncodedSamples`)."""

    def good(self, count: int) -> Iterator[Sample]: ...
    def bad(self, number: int, good: Sample) -> Sample: ...


class Mixture:
    """Takes samples, a share of them bad, spread evenly, with the kinds of bad messages in turn."""

    def __init__(self, samples: Source, bad_share: float) -> None:
        self._samples, self._share = samples, bad_share
        self.taken = self.tombstones = 0
        self.bad = Counter[str]()  # by the reason that the dead letter must give

    @property
    def good(self) -> int:
        """Messages taken that become rows."""
        return self.taken - self.tombstones - self.bad.total()

    def take(self, count: int) -> Iterator[Sample]:
        """Yield the next `count` messages."""
        number = self.bad.total()
        for sample in self._samples.good(count):
            self.taken += 1
            taken = self._samples.bad(number, sample) if number < round(self.taken * self._share) else sample
            if taken.reason is not None:
                self.bad[taken.reason] += 1
                number += 1
            elif taken.value is None:
                self.tombstones += 1
            yield taken


def samples_of(
    contract: Contract, address: Registry | None, seed: int | None
) -> tuple[Source, Sequence[tuple[str, bytes]]]:
    """Return the source of generated messages for the contract, and the headers of each message.

    Raises BadInput if the subject has no schema that fits, and RegistryAway.
    """
    schemas = message_schemas(contract, address, keyed=contract.reads_keys)
    if schemas is None:
        return Samples(contract, seed), ()
    from platform_defs.samples.encoded import EncodedSamples

    samples = EncodedSamples(contract, schemas, seed)
    return samples, samples.headers
