"""How the domain's things are called in Dagster."""

import dagster as dg

from platform_defs.contract.model import Contract, Table

PIPELINE_TAG = "tidegate/pipeline"
VERIFY = "verify"


def table_key(table: str) -> dg.AssetKey:
    """`bank.postings` is `bank/postings`."""
    return dg.AssetKey(table.split("."))


def topic_key(topic: str) -> dg.AssetKey:
    """`bank.transfers` is `kafka/bank.transfers`: one part, since Kafka knows no schemas."""
    return dg.AssetKey(["kafka", topic])


def table_keys(contract: Contract) -> list[dg.AssetKey]:
    return [table_key(table.name) for table in contract.tables]


def verify_key(contract: Contract) -> dg.AssetCheckKey:
    """The check `verify` stands at the topic: it asks what became of each of its messages, in all tables."""
    return dg.AssetCheckKey(topic_key(contract.topic), VERIFY)


def is_row_table(contract: Contract, table: Table) -> bool:
    return table.name == contract.row_table.name
