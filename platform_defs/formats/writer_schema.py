"""A schema that messages were written with, and where in a block the messages are."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from platform_defs.contract.model import Format


@dataclass(frozen=True)
class WriterSchema:
    """A schema that messages were written with, as the registry has it. What an id once meant, it means for good."""

    key: str  # the registry's id as text, its GUID, or the path of a schema file
    format: Format
    document: str  # Avro or JSON Schema: JSON text; Protobuf: .proto text, or base64 of a FileDescriptorProto
    references: tuple[tuple[str, str], ...] = ()  # (name, document): the whole closure, each before those that need it


@dataclass(frozen=True)
class Spans:
    """Where payloads are in a buffer: payload i is data[starts[i]:stops[i]]. Nothing is copied."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
