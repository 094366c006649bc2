"""`publication: direct`: the contracts it takes, and those it refuses, with the place in the file."""

from pathlib import Path

import pytest

from platform_defs.contract.reader.catalogue import with_transform
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from tests.unit.contract.contract_mistakes import GOOD

_RULE, _TOTALS = GOOD.index("    quality:\n      - name: some_orders"), GOOD.index("  - name: totals")
DIRECT = GOOD[:_RULE].replace("property: batchMessages, value: 1000", "property: publication, value: direct")


def write(folder: Path, text: str) -> Path:
    path = folder / "orders.odcs.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_publication_is_staged_unless_the_contract_says_otherwise(tmp_path: Path) -> None:
    assert load(write(tmp_path, GOOD)).publication == "staged"
    assert load(write(tmp_path, DIRECT)).publication == "direct"


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (DIRECT + GOOD[_RULE:_TOTALS], "some_orders", r"does not support batch rules \(some_orders\)"),
        (DIRECT + GOOD[_TOTALS:], "totals", r"does not support accumulate tables \(shop.totals\)"),
        (DIRECT.replace("value: append", "value: upsert"), "orders", "append tables only, and shop.orders is upsert"),
        (DIRECT.replace("physicalType: double", "physicalType: uuid"), "weight", r"cannot write uuid \(weight\)"),
        (DIRECT.replace("physicalType: double", "physicalType: time"), "weight", r"cannot write time \(weight\)"),
    ],
    ids=["a batch rule", "an accumulate", "an upsert", "a uuid", "a time"],
)
def test_what_only_a_staged_batch_carries_is_refused_where_it_stands(
    tmp_path: Path, text: str, field: str, message: str
) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        load(write(tmp_path, text))
    assert field in str(refused.value.field)
    assert refused.value.line


def test_a_transform_is_refused(tmp_path: Path) -> None:
    contract = load(write(tmp_path, DIRECT))
    (tmp_path / "orders.py").write_text("def transform(frame):\n    return frame\n")
    with pytest.raises(BadInput, match="publication: direct cannot have a transform"):
        with_transform(contract)
