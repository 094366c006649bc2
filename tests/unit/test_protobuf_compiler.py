"""What a schema can do to the compiler, and to the machine on which it runs."""

import sys
from pathlib import Path

import pytest

from platform_defs.formats.protobuf import compiler
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.formats.writer_schema import SchemaNotCompatible, WriterSchema

RESERVED = ",".join(str(2 * n + 1) for n in range(100_000))  # compared each with each
LARGE = f'syntax = "proto3"; message A {{ reserved {RESERVED}; }}'


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("CPU_SECONDS", 1, "the compiler needs more than 1 s of CPU time"),
        ("MEMORY", 150_000_000, "the compiler needs more than 150,000,000 bytes of memory"),
    ],
)
def test_a_schema_that_needs_too_much_is_not_compatible(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, said: str
) -> None:
    monkeypatch.setattr(compiler, limit, value)
    with pytest.raises(SchemaNotCompatible, match=said):
        file_of(WriterSchema(limit, "protobuf", LARGE))


def test_the_compiler_is_told_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://me:hush@db/x")
    monkeypatch.setenv("PGPASSWORD", "hush")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nenv\n")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    answered = compiler.run([]).stdout
    assert "PATH=" in answered
    assert "hush" not in answered
