"""The topic, and the contract, that a name means."""

from dataclasses import replace
from pathlib import Path

import pytest

from platform_defs.contract.reader.catalogue import BrokenContract, Contracts
from platform_defs.errors import BadInput
from platform_defs.settings.contracts import find_contract
from platform_defs.topics.destination import Destination, find_destination, missing

TRANSFERS, CUSTOMERS = find_contract("bank_transfers"), find_contract("crm_customers")
BROKEN = BrokenContract(Path("assets/web/views.odcs.yaml"), BadInput("it is broken", line=7))
SHIPPED = Contracts((TRANSFERS, CUSTOMERS), (BROKEN,))


def test_a_pipeline_and_its_topic_are_the_same_destination() -> None:
    wanted = Destination("bank.transfers", TRANSFERS)
    assert find_destination("bank_transfers", SHIPPED) == find_destination("bank.transfers", SHIPPED) == wanted


def test_a_topic_that_no_contract_reads_has_none_but_those_that_cannot_be_read_and_contain_its_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "views.odcs.yaml"
    path.write_text("physicalName: orders\n{")
    broken = BrokenContract(path, BadInput("it is broken", line=7))
    found = Contracts((TRANSFERS,), (broken,))
    assert find_destination("orders", found) == Destination("orders", None, (broken,))
    assert find_destination("parcels", found) == Destination("parcels", None)


def test_of_several_pipelines_of_one_topic_the_user_names_one() -> None:
    other = replace(TRANSFERS, pipeline="fraud")
    both = Contracts((TRANSFERS, other), ())
    with pytest.raises(BadInput, match=r"several pipelines read topic bank.transfers; .*: bank_transfers, fraud"):
        find_destination("bank.transfers", both)
    assert find_destination("fraud", both).contract is other


def test_a_pipeline_is_meant_where_its_name_is_also_a_topic() -> None:
    other = replace(CUSTOMERS, topic="bank_transfers")
    assert find_destination("bank_transfers", Contracts((other, TRANSFERS), ())).contract is TRANSFERS


def test_a_contract_that_cannot_be_used_says_why() -> None:
    clash = BrokenContract(Path("a/b/c.odcs.yaml"), BadInput("defined twice"), TRANSFERS)
    for name in ("bank_transfers", "bank.transfers"):
        with pytest.raises(BadInput, match="defined twice"):
            find_destination(name, Contracts((), (clash,)))
    with pytest.raises(BadInput, match="it is broken"):
        find_destination("web_views", SHIPPED)


def test_a_misspelled_name_is_answered_with_one_like_it() -> None:
    assert "Did you mean bank_transfers?" in str(missing("bank_transfer", SHIPPED))
    assert "Did you mean" not in str(missing("x", SHIPPED))
    assert "Did you mean" not in str(missing("bank.transfers", SHIPPED)), "it is declared, and not created yet"
