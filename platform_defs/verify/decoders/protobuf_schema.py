"""A registered Protobuf schema as descriptors, for verify alone: compiled by Google's compiler."""

import base64
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from signal import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV
from tempfile import TemporaryDirectory

import google.type
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

import platform_defs
from platform_defs.errors import Retryable
from platform_defs.proto import compiler
from platform_defs.verify.decoders.documents import NotTheType

_MAX_NAME = 1_000  # characters
_CRASHES = tuple(-number for number in (SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV))
_part = re.compile(r"(?!\.\.?$)[^\\/]+").fullmatch
_is_base64 = re.compile(r"[A-Za-z0-9+/\s]*=*\s*").fullmatch


Places = tuple[int, ...]


@lru_cache(64)
def message_types(document: str, references: tuple[tuple[str, str], ...]) -> dict[Places, set[Descriptor]]:
    """Return the message types of a schema by position: their indexes per nesting level, outermost first.

    Implementations differ on whether a map's entry has an index (Python and Go: yes, Java: no), so a position may have
    two types. Raises NotTheType for an invalid schema.
    """
    pool, main = DescriptorPool(), "writer.proto"
    while main in dict(references):
        main = f"_{main}"
    try:
        with TemporaryDirectory(prefix="tidegate-validator-") as folder:
            for file in _compile(Path(folder), main, document, references).file:
                _refuse_long_names([*file.message_type], [*file.enum_type])
                pool.AddSerializedFile(file.SerializeToString())
        top = pool.FindFileByName(main).message_types_by_name.values()
    except (TypeError, KeyError, ValueError, DecodeError, FileExistsError, NotADirectoryError, IsADirectoryError):
        raise NotTheType("SchemaNotCompatible") from None
    found: dict[Places, set[Descriptor]] = {}
    for place, of in enumerate(top):
        _add(found, [(place,)], of)
    return found


def _refuse_long_names(messages: list[DescriptorProto], enums: list[EnumDescriptorProto]) -> None:
    """Raise ValueError if a field, or a value of an enum, has a name of more than 1,000 characters."""
    while messages:
        of = messages.pop()
        messages += of.nested_type
        enums += of.enum_type
        if any(len(item.name) > _MAX_NAME for item in of.field):
            raise ValueError(of.name)
    if any(len(value.name) > _MAX_NAME for enum in enums for value in enum.value):
        raise ValueError


def _add(found: dict[Places, set[Descriptor]], places: list[Places], of: Descriptor) -> None:
    """Add `of` at each of its positions, and the types nested in it."""
    for place in places:
        found.setdefault(place, set()).add(of)
    java = 0
    for all_counted, inner in enumerate(of.nested_types):
        if inner.GetOptions().map_entry:
            continue
        _add(found, [(*places[0], all_counted), (*places[-1], java)], inner)
        java += 1


def _compile(folder: Path, main: str, document: str, references: Sequence[tuple[str, str]]) -> FileDescriptorSet:
    texts, descriptors = folder / "texts", FileDescriptorSet()
    texts.mkdir()
    for name, content in (*references, (main, document)):
        if name.startswith("google/protobuf/"):  # known to the compiler
            continue
        if _is_base64(content):
            file = FileDescriptorProto.FromString(base64.b64decode(content))
            file.name = name
            descriptors.file.append(file)
        elif PurePosixPath(name).is_absolute() or not _is_name(name):
            raise NotTheType("SchemaNotCompatible")
        else:
            (texts / name).parent.mkdir(parents=True, exist_ok=True)
            (texts / name).write_text(content, encoding="utf-8")
    (folder / "descriptors").write_bytes(descriptors.SerializeToString())
    return _run(folder, texts, main, bool(descriptors.file))


def _is_name(name: str) -> bool:
    short = len(name.encode("utf-8", "replace")) <= 2_000 and name.isprintable()
    few = name.count("/") < 50
    return short and few and all(_part(part) and len(part.encode()) < 256 for part in name.split("/"))


def _run(folder: Path, texts: Path, main: str, with_descriptors: bool) -> FileDescriptorSet:
    known = Path(next(iter(platform_defs.__path__))) / "proto"
    arguments = [f"-I{texts}", f"-Igoogle/type={next(iter(google.type.__path__))}", f"-I{known}", "--include_imports"]
    if with_descriptors:
        arguments.append(f"--descriptor_set_in={folder / 'descriptors'}")
    done = compiler.run([*arguments, f"-o{folder / 'answer'}", main])
    is_written = not done.stderr.startswith(str(folder / "answer"))  # else the disk failed
    refused = done.returncode == compiler.REFUSED and is_written and not _is_not_opened(folder, main, done.stderr)
    if done.returncode in _CRASHES or refused or compiler.limit_reached(done.returncode, done.stderr):
        raise NotTheType("SchemaNotCompatible")
    if done.returncode:
        raise Retryable(
            f"the compiler of Protobuf schemas ended with status {done.returncode}: {done.stderr.strip()[-500:]}"
        )
    return FileDescriptorSet.FromString((folder / "answer").read_bytes())


def _is_not_opened(folder: Path, main: str, message: str) -> bool:
    """Return True if the compiler's only error is that it cannot open a file it was given: the machine's fault."""
    complaints = [line for line in message.splitlines() if ": warning: " not in line]
    if len(complaints) != 1 or complaints[0].endswith(": Unable to parse."):
        return False
    files = (str(folder / "descriptors"), f"Could not make proto path relative: {main}")
    return complaints[0].startswith(tuple(f"{file}: " for file in files))
