"""Compiles a registered Protobuf schema, text or descriptor, to descriptors: by Google's own compiler, in a process of
its own.

Each schema gets a pool of its own: two versions of a schema define the same names, which the default pool refuses.
"""

import base64
import binascii
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import google.type
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Error

import platform_defs
from platform_defs.errors import Retryable
from platform_defs.formats.blocks.budget import too_long
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.schema_cache import SchemaCache
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.proto import compiler

_MAX_NAME, _MAX_PART, _MAX_PARTS = 2_000, 255, 50  # bytes; a file system takes no longer ones
_FROM_OUTSIDE = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
_files = SchemaCache[FileDescriptor]()  # of a process: compiling one takes longer than reading ten thousand messages
_of_the_log = re.compile(r"[EF]\d{4} [^]]*\] ").match  # what the compiler's own log has before a message
MAIN = "schema.proto"  # the name of the schema itself, which the registry does not give
_BUILT_IN = "google/protobuf/"  # always the compiler's own, so that a Timestamp is what its name says
# What a schema may import without a reference, as with Confluent's serializers; google/protobuf is the compiler's.
_KNOWN = (
    f"google/type={Path(next(iter(google.type.__path__)))}",
    str(Path(next(iter(platform_defs.__path__))) / "proto"),
)


def file_of(writer: WriterSchema) -> FileDescriptor:
    """Return the descriptor of the schema's file. Raises SchemaNotCompatible, with the compiler's message, for an
    invalid schema or one that lacks a reference; Retryable if the compiler could not run.
    """
    text = (writer.document, writer.references)  # the registry may have it under several ids
    return _files.get(text) or _files.put(text, _loaded(writer), writer.size)


def _loaded(writer: WriterSchema) -> FileDescriptor:
    pool = DescriptorPool()
    try:
        for item in _compiled(writer).file:
            for name in (*_names_in_enums(item.enum_type), *_names_in_messages(item.message_type)):
                if why := too_long(name):
                    raise SchemaNotCompatible([f"the schema cannot be read: {why}"])
            pool.AddSerializedFile(item.SerializeToString())
        return pool.FindFileByName(_main(writer))
    except (TypeError, KeyError, ValueError, Error) as error:  # what this runtime does not take: a newer edition
        raise SchemaNotCompatible([f"the schema cannot be loaded: {error}"]) from None


def _names_in_messages(messages: Iterable[DescriptorProto]) -> Iterator[str]:
    for of in messages:
        yield from (field.name for field in of.field)
        yield from _names_in_enums(of.enum_type)
        yield from _names_in_messages(of.nested_type)


def _names_in_enums(enums: Iterable[EnumDescriptorProto]) -> Iterator[str]:
    for of in enums:
        yield from (value.name for value in of.value)


def _compiled(writer: WriterSchema) -> FileDescriptorSet:
    """Return the schema and all that it imports, each after its dependencies."""
    with TemporaryDirectory(prefix="tidegate-proto-") as name:
        folder = Path(name)
        given = FileDescriptorSet()
        references = [found for found in writer.references if not found[0].startswith(_BUILT_IN)]
        for path, document in (*references, (_main(writer), writer.document)):
            _put(folder / "src", path, document, given)
        (folder / "given").write_bytes(given.SerializeToString())
        _run_compiler(folder, _main(writer), bool(given.file))
        return FileDescriptorSet.FromString((folder / "compiled").read_bytes())


def _put(folder: Path, path: str, document: str, given: FileDescriptorSet) -> None:
    """Write a text to a file in the folder; add a descriptor to `given`."""
    if not _is_name(path):
        raise SchemaNotCompatible([f"the reference {excerpt(path)!r} is not a valid import name"])
    with suppress(binascii.Error, ValueError, DecodeError):  # text always has characters that base64 lacks
        descriptor = FileDescriptorProto.FromString(base64.b64decode("".join(document.split()), validate=True))
        descriptor.name = path
        given.file.append(descriptor)
        return
    try:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(document, encoding="utf-8")
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise SchemaNotCompatible([f"the reference {excerpt(path)!r} is a folder of another reference"]) from None
    except UnicodeEncodeError as error:
        raise SchemaNotCompatible([f"the schema {excerpt(path)!r} is not Unicode: {error.reason}"]) from None


def _is_name(path: str) -> bool:
    """Return True if a file below a folder can have that name: other errors are then the system's."""
    if "\\" in path or not path.isprintable() or len(path.encode()) > _MAX_NAME:
        return False
    parts = path.split("/")
    named = all(part not in ("", ".", "..") and len(part.encode()) <= _MAX_PART for part in parts)
    return named and len(parts) <= _MAX_PARTS


def _main(writer: WriterSchema) -> str:
    """Return MAIN, or a longer name if a reference has that one."""
    name, taken = MAIN, {path for path, _ in writer.references}
    while name in taken:
        name = f"_{name}"
    return name


def _run_compiler(folder: Path, main: str, has_descriptors: bool) -> None:
    (folder / "src").mkdir(exist_ok=True)
    arguments = ["--include_imports", f"-o{folder / 'compiled'}"]
    arguments += [f"-I{path}" for path in (folder / "src", *_KNOWN)]
    arguments += [f"--descriptor_set_in={folder / 'given'}"] * has_descriptors
    done = compiler.run([*arguments, main])
    if done.returncode:
        is_read = not _is_of_files(folder, main, done.stderr)
        message = done.stderr.replace(f"{folder / 'src'}/", "").replace(f"{folder}/", "")
        raise _failure(done.returncode, message, is_read)


def _is_of_files(folder: Path, main: str, stderr: str) -> bool:
    """Return True if the compiler could not write its output, or not open its input: it then reports nothing else."""
    if f"{folder / 'compiled'}: " in stderr:
        return True
    messages = [line for line in stderr.splitlines() if ": warning: " not in line]
    opening = (f"{folder / 'given'}: ", f"Could not make proto path relative: {main}: ")
    return len(messages) == 1 and messages[0].startswith(opening) and not messages[0].endswith(": Unable to parse.")


def _failure(status: int, stderr: str, is_read: bool) -> SchemaNotCompatible | Retryable:
    """Return the error: the schema's, if the compiler refuses it, crashes on it or reaches a limit; otherwise the
    system's, also if the compiler could not read its input (not `is_read`).
    """
    if limit := compiler.limit_reached(status, stderr):
        return SchemaNotCompatible([f"the schema does not compile: the compiler needs more than {limit}"])
    crashed = status < 0 and -status not in _FROM_OUTSIDE
    if crashed or (status == compiler.REFUSED and is_read):
        return SchemaNotCompatible([f"the schema does not compile: {_first_error(stderr)}"])
    return Retryable(f"the compiler of Protobuf schemas did not run (status {status}): {stderr.strip()[-500:]}")


def _first_error(stderr: str) -> str:
    """Return the first line that names a schema file or is from the compiler's log; the last line if there is none."""
    lines = [line for line in stderr.splitlines() if ": warning: " not in line]
    if named := next((line for line in lines if ".proto:" in line), None):
        return named
    if logged := next((line for line in lines if _of_the_log(line)), None):
        return logged.partition("] ")[2]
    return lines[-1] if lines else "the compiler gives no reason"
