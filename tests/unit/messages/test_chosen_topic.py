"""The topic that a name means to `tidegate peek`, and the contract that reads it."""

from dataclasses import replace
from pathlib import Path

import pytest

from platform_defs.contract.model.classified import classified
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.reader.catalogue import BrokenContract, Contracts
from platform_defs.errors import BadInput
from platform_defs.messages.chosen_topic import ChosenTopic, choose_topic
from platform_defs.settings.contracts import find_contract
from tests.support.world import declassified

TRANSFERS = find_contract("bank_transfers")
OPEN = declassified(TRANSFERS)


def contracts(*good: Contract, broken: tuple[BrokenContract, ...] = ()) -> Contracts:
    return Contracts(good, broken)


def broken(path: Path, text: str) -> BrokenContract:
    path.write_text(text)
    return BrokenContract(path, BadInput("is not YAML", file=str(path), line=3))


def test_a_pipeline_and_its_topic_mean_the_same() -> None:
    found = contracts(OPEN)
    expected = ChosenTopic("bank.transfers", OPEN, hides=False)
    assert choose_topic("bank_transfers", found, raw=False) == expected
    assert choose_topic("bank.transfers", found, raw=False) == expected


def test_a_topic_without_a_contract_is_bytes() -> None:
    assert choose_topic("other", contracts(OPEN), raw=False) == ChosenTopic("other", None, hides=False)


def test_a_pipelines_name_comes_before_a_topics() -> None:
    other = replace(OPEN, pipeline="other", topic="bank_transfers")
    assert choose_topic("bank_transfers", contracts(other, OPEN), raw=False).topic == "bank.transfers"


def test_of_several_contracts_one_has_to_be_named() -> None:
    found = contracts(OPEN, replace(OPEN, pipeline="risk"))
    with pytest.raises(BadInput, match=r"bank.transfers is read by several contracts: bank_transfers, risk\. Give one"):
        choose_topic("bank.transfers", found, raw=False)
    assert choose_topic("risk", found, raw=False).contract == found.good[1]
    assert choose_topic("bank.transfers", found, raw=True) == ChosenTopic("bank.transfers", None, hides=False)


def test_where_one_contract_classifies_fields_bytes_are_hidden_from_all() -> None:
    found = contracts(OPEN, replace(TRANSFERS, pipeline="risk"))
    assert choose_topic("bank_transfers", found, raw=False).hides
    for name in ("bank_transfers", "risk", "bank.transfers"):
        with pytest.raises(BadInput, match="the contract of risk classifies fields"):
            choose_topic(name, found, raw=True)


def test_a_field_that_another_contract_of_the_topic_classifies_is_classified() -> None:
    found = contracts(OPEN, replace(TRANSFERS, pipeline="risk"))
    assert classified(OPEN).fields == frozenset()
    assert choose_topic("bank_transfers", found, raw=False).classified == classified(TRANSFERS).fields != frozenset()


def test_a_contract_that_cannot_be_used_still_classifies_its_fields() -> None:
    unusable = BrokenContract(Path("risk.odcs.yaml"), BadInput("does not fit"), replace(TRANSFERS, pipeline="risk"))
    found = contracts(OPEN, broken=(unusable,))
    assert choose_topic("bank_transfers", found, raw=False).classified == classified(TRANSFERS).fields


@pytest.mark.parametrize("text", ["a: [\nphysicalName: shop.orders # mine\n", 'x: "shop.orders"'])
def test_a_contract_that_cannot_be_read_may_classify_fields(tmp_path: Path, text: str) -> None:
    item = broken(tmp_path / "orders.odcs.yaml", text)
    found = contracts(replace(OPEN, topic="shop.orders", pipeline="good"), broken=(item,))
    assert choose_topic("good", found, raw=False).hides
    assert choose_topic("shop.orders", found, raw=False).hides
    for name, raw in (("shop.orders", True), ("good", True), (f"{tmp_path.name}/orders", False)):
        with pytest.raises(BadInput, match="is not YAML"):
            choose_topic(name, found, raw=raw)
    with pytest.raises(BadInput, match="is not YAML"):
        choose_topic("shop.orders", contracts(broken=(item,)), raw=False)
    for other in ("orders", "shop.order", "shop.orders.v2", "myshop.orders"):
        assert choose_topic(other, found, raw=True) == ChosenTopic(other, None, hides=False)
