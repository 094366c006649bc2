"""The report of `tidegate demo` on its tables."""

import pytest

from platform_defs.demo.ledger import read_totals
from platform_defs.settings.contracts import find_pipeline
from tests.support.world import World, transfers


@pytest.mark.slow
def test_the_totals_of_the_demo_are_those_of_its_tables(world: World) -> None:
    pipeline = find_pipeline("bank_transfers")
    if pipeline.contract.topic not in world.admin().list_topics(timeout=10).topics:
        world.create_topic(pipeline.contract.topic)
    world.send_and_drain(pipeline, [*transfers(20), b"not JSON"])
    totals = read_totals(world.endpoints.postgres_url)
    (found,) = world.rows("select (select count(*) from bank.postings) postings, sum(balance) sums from bank.balances")
    assert totals["exact"]
    assert (totals["postings"], totals["balances_sum"]) == (found["postings"], found["sums"])
    assert totals["postings"] == 2 * (totals["messages"] - totals["dead_letters"]) >= 40
    assert totals["messages_per_second"]
    assert sum(totals["dead_letters_by_reason"].values()) == totals["dead_letters"] >= 1
