"""A number in a message is the same value, or the same fault, to the engine and to verify."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.json.decode import decode
from platform_defs.verify.compare.chunk_validator import ChunkValidator
from platform_defs.verify.source.messages import Chunk
from platform_defs.verify.validators.validator import Validator
from tests.unit.formats.json.test_decode_agreement import contract_of, same

DECIMALS = [(precision, scale) for precision in range(1, 39) for scale in range(precision + 1)]
DIGITS = st.text("0123456789", max_size=45)
ODD_EXPONENTS = """E+2 e-002 e0 e400 e-400 e-10000000 e999999999 e-999999999 e99999999999999999999
    e-99999999999999999999 e+-1 e-+1 e++1 e--1 e e+ e0x1 e1.5"""
EXPONENTS = st.one_of(
    st.just(""),
    st.integers(-80, 80).map(lambda exponent: f"e{exponent}"),
    st.sampled_from(ODD_EXPONENTS.split()),
)
NUMBERS = st.builds(
    lambda sign, whole, point, fraction, exponent: sign + whole + (point and point + fraction) + exponent,
    st.sampled_from(["", "", "-", "+"]),
    st.one_of(DIGITS, st.integers(0, 10**6).map(str)),
    st.sampled_from(["", "."]),
    DIGITS,
    EXPONENTS,
)
ODD_NUMBERS = """1e-10000000 -1e-10000000 1e-999999999 1e999999999 0e999999999 0e-999999999 1e99999999999999999999
    0e+-1 1e+-39 1e-39 1e-38 1.5e30 1.5e27 1e38 -0 -0.0 0.00 00 01 1. .5 - + e1 NaN Infinity 1e400 1e-400 5e-324
    2.4703282292062327e-324 1.7976931348623157e308 1.7976931348623159e308 9007199254740993
    0.1000000000000000055511151231257827 9223372036854775807 9223372036854775808 -9223372036854775808
    -9223372036854775809 18446744073709551616"""
OF_NUMBERS = ["decimal(5,0)", "decimal(6,2)", "decimal(38,10)", "decimal(38,0)", "decimal(38,38)", "integer", "double"]


def messages_of(number: str) -> list[bytes]:
    """Return messages with the number as JSON's, as a text, and under a key that has no column."""
    return [f'{{"n":{number}}}'.encode(), f'{{"n":"{number}"}}'.encode(), f'{{"x":{number}}}'.encode()]


def by_the_engine(contract: Contract, values: list[bytes]) -> list[Any]:
    """Return the value of each message's field, or the class of its fault."""
    decoded = decode(contract, pa.array(values, pa.binary()))
    found: dict[int, Any] = {fault.index: fault.error_class for fault in decoded.faults}
    indexes: list[Any] = decoded.indexes.to_pylist()
    found.update(zip(indexes, decoded.rows.column("n").to_pylist(), strict=True))
    return [found[place] for place in range(len(values))]


def by_verify(contract: Contract, values: list[bytes]) -> list[Any]:
    """Return the same from verify."""
    none: list[bytes | None] = [None] * len(values)
    chunk = Chunk(0, 0, len(values), [*range(len(values))], none, [*values], none, none)
    validated = ChunkValidator(contract, Validator(contract)).validate(chunk)
    found: dict[int, Any] = {place: row.reason for place, row in validated.others.items()}
    found.update(zip(np.array(validated.places).tolist(), validated.rows["n"].to_pylist(), strict=True))
    return [found[place] for place in range(len(values))]


def assert_agreement(kind: str, numbers: Sequence[str]) -> None:
    contract = contract_of({"n": kind})
    values = [message for number in numbers for message in messages_of(number)]
    for value, engine, verify in zip(values, by_the_engine(contract, values), by_verify(contract, values), strict=True):
        assert same(engine, verify), (kind, value, engine, verify)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.sampled_from(DECIMALS), st.lists(NUMBERS, min_size=1, max_size=5))
@example((5, 0), ["1e-39", "0e+-1", "1e+-39"])
@example((38, 10), ["1.5e30", "1e-10000000"])
@example((33, 14), [f"-1{'0' * 50}e-37", f"1{'0' * 40}e-37"])  # more zeros than Arrow takes off
def test_a_decimal_is_the_same_to_engine_and_verify(of: tuple[int, int], numbers: Sequence[str]) -> None:
    assert_agreement("decimal({},{})".format(*of), numbers)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["integer", "double"]), st.lists(NUMBERS, min_size=1, max_size=5))
def test_an_integer_or_a_double_is_the_same_to_engine_and_verify(kind: str, numbers: Sequence[str]) -> None:
    assert_agreement(kind, numbers)


@pytest.mark.parametrize("kind", OF_NUMBERS)
def test_an_odd_number_is_the_same_to_engine_and_verify(kind: str) -> None:
    assert_agreement(kind, ODD_NUMBERS.split())


@pytest.mark.parametrize("kind", OF_NUMBERS)
@pytest.mark.parametrize("number", ["1e-10000000", "1e999999999", "-1E+999999999", "9" * 500_000, "0." + "0" * 500_000])
def test_a_huge_exponent_or_number_takes_verify_neither_time_nor_memory(kind: str, number: str) -> None:
    started, contract = time.process_time(), contract_of({"n": kind})
    for value in by_verify(contract, messages_of(number)):
        assert len(str(value)) < 50
    assert time.process_time() - started < 5
