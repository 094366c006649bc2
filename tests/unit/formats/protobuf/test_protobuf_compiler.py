"""Schemas that could harm the compiler, or the machine on which it runs."""

import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from platform_defs.errors import Retryable
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.proto import compiler
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.decoders.protobuf import ProtobufValidator
from platform_defs.verify.decoders.protobuf_schema import message_types
from tests.unit.formats.protobuf.protobuf_messages import contract_of

pytestmark = pytest.mark.long


RESERVED = ",".join(str(2 * n + 1) for n in range(100_000))  # compared each with each
ELSEWHERE = "Could not make proto path relative"
LARGE = f'syntax = "proto3"; message A {{ reserved {RESERVED}; }}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("CPU_SECONDS", 1, "the compiler needs more than 1 s of CPU time"),
        ("MEMORY", 150_000_000, "the compiler needs more than 150,000,000 bytes of memory"),
    ],
)
def test_a_schema_that_needs_too_much_is_not_compatible(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, message: str
) -> None:
    monkeypatch.setattr(compiler, limit, value)
    with pytest.raises(SchemaNotCompatible, match=message):
        file_of(WriterSchema(limit, "protobuf", LARGE))
    message_types.cache_clear()
    with pytest.raises(NotTheType, match=r"^SchemaNotCompatible$"):
        ProtobufValidator(contract_of({"number": "integer"}), LARGE)


def written(message: str, *imports: str, package: str = "", levels: int = 0) -> str:
    """Return a schema of one message as confluent-kafka's serializer registers it, with `levels` messages in it."""
    file = FileDescriptorProto(name="x", syntax="proto3", package=package, dependency=imports)
    inner = file.message_type.add(name=message)
    for _ in range(levels):
        inner = inner.nested_type.add(name="Inner")
    return b64encode(file.SerializeToString()).decode()


IMPORTS = 'syntax = "proto3"; import "a.proto"; message Other { }'


@pytest.mark.parametrize(
    ("document", "references", "message"),
    [
        (written("M", "a.proto"), {"a.proto": written("M")}, 'Symbol name "M" conflicts'),
        (IMPORTS, {"a.proto": written("N"), "b.proto": written("N")}, 'Symbol name "N" conflicts'),
        (written("M", "a.proto", package="A"), {"a.proto": written("A")}, 'Symbol name "A.M" conflicts'),
        (written("a-b"), {}, "Invalid symbol name: a-b"),
        (b64encode(b'\x0a\x01x"\x05\x0a\x03M\xff\xfe').decode(), {}, "Invalid symbol name: M"),
        (written("M", levels=99), {}, "given: Unable to parse."),
    ],
)
def test_a_schema_that_the_compiler_refuses_without_naming_its_file_is_not_compatible(
    document: str, references: dict[str, str], message: str
) -> None:
    with pytest.raises(SchemaNotCompatible) as refused:
        file_of(WriterSchema("1", "protobuf", document, tuple(references.items())))
    assert str(refused.value).startswith(f"the schema does not compile: {message}")
    with pytest.raises(NotTheType, match=r"^SchemaNotCompatible$"):
        ProtobufValidator(contract_of({"number": "integer"}), document, tuple(references.items()))


def by_the_engine(document: str) -> None:
    file_of(WriterSchema(document, "protobuf", document))


def by_verify(document: str) -> None:
    ProtobufValidator(contract_of({"number": "integer"}), document)


def test_a_disk_that_is_full_is_no_fault_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    run = compiler.run

    def onto_a_full_disk(arguments: list[str]) -> CompletedProcess[str]:
        output = next(one for one in arguments if one.startswith("-o"))
        Path(output.removeprefix("-o")).symlink_to("/dev/full")
        return run(arguments)

    monkeypatch.setattr(compiler, "run", onto_a_full_disk)
    with pytest.raises(Retryable, match="No space left on device"):
        file_of(WriterSchema("full", "protobuf", 'syntax = "proto3"; message OntoAFullDisk { }'))


@pytest.mark.parametrize(
    ("read", "kept", "document", "message"),
    [
        (by_the_engine, "src/schema.proto", 'syntax = "proto3"; message Lost { }', ELSEWHERE),
        (by_the_engine, "given", written("Lost"), "given: No such file"),
        (by_verify, "texts/writer.proto", 'syntax = "proto3"; message NotThere { }', ELSEWHERE),
        (by_verify, "descriptors", written("NotThere"), "descriptors: No such file"),
    ],
)
def test_a_file_that_the_compiler_cannot_open_is_no_fault_of_the_schema(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], None], kept: str, document: str, message: str
) -> None:
    run = compiler.run

    def without_it(arguments: list[str]) -> CompletedProcess[str]:
        output = next(one for one in arguments if one.startswith("-o"))
        (Path(output.removeprefix("-o")).parent / kept).unlink()
        return run(arguments)

    monkeypatch.setattr(compiler, "run", without_it)
    with pytest.raises(Retryable, match=message):
        read(document)


def test_a_schema_that_speaks_as_the_compiler_does_of_files_is_refused() -> None:
    text = 'syntax = "proto3"; import "Could not make proto path relative: schema.proto: ";'
    with pytest.raises(SchemaNotCompatible, match="File not found"):
        file_of(WriterSchema("speaks", "protobuf", text))


def test_a_compiler_that_python_cannot_load_is_no_fault_of_the_schema(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "grpc_tools").mkdir()
    (tmp_path / "grpc_tools" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    text = 'syntax = "proto3"; message NotLoaded { }'
    with pytest.raises(Retryable, match=r"(?s)did not run \(status 1\): .*No module named"):
        file_of(WriterSchema("not loaded", "protobuf", text))
    with pytest.raises(Retryable, match="ended with status 1"):
        ProtobufValidator(contract_of({"number": "integer"}), text)


def test_memory_that_runs_out_before_the_compiler_runs_is_no_fault_of_the_schema(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "grpc_tools").mkdir()
    (tmp_path / "grpc_tools" / "__init__.py").write_text("raise MemoryError")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    text = 'syntax = "proto3"; message NoMemory { }'
    with pytest.raises(Retryable, match=r"(?s)did not run \(status 1\): .*MemoryError"):
        file_of(WriterSchema("no memory", "protobuf", text))
    with pytest.raises(Retryable, match="ended with status 1"):
        ProtobufValidator(contract_of({"number": "integer"}), text)


def test_the_compiler_is_told_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://me:hush@db/x")
    monkeypatch.setenv("PGPASSWORD", "hush")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nenv >> {tmp_path}/given\nexit 1")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    text = 'syntax = "proto3"; message Told { }'
    with pytest.raises(Retryable):
        file_of(WriterSchema("told", "protobuf", text))
    with pytest.raises(Retryable):
        ProtobufValidator(contract_of({"number": "integer"}), text)
    given = (tmp_path / "given").read_text()
    assert given.count("\nPATH=") == 2
    assert "hush" not in given
