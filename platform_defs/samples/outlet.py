"""Made-up messages of a contract, written with its messages' schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from platform_defs.contract.model.contract import Contract
from platform_defs.samples.mixture import Source
from platform_defs.samples.samples import Samples
from platform_defs.schemas.writer_schemas import message_schemas

if TYPE_CHECKING:
    from platform_defs.settings.registry_address import Registry


def samples_of(
    contract: Contract, address: Registry | None, seed: int | None
) -> tuple[Source, Sequence[tuple[str, bytes]]]:
    """Return the source of made-up messages for the contract, and the headers of each message.

    Raises BadInput if the subject has no schema that fits, and RegistryAway.
    """
    schemas = message_schemas(contract, address, keyed=contract.reads_keys)
    if schemas is None:
        return Samples(contract, seed), ()
    from platform_defs.samples.encoded import EncodedSamples

    samples = EncodedSamples(contract, schemas, seed)
    return samples, samples.headers
