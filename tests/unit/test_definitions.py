"""What Dagster loads: the graph of the shipped pipelines, as a snapshot.

A topic that is added to assets/ turns nothing red here.
"""

from dataclasses import replace

from dagster import AssetKey, AssetSelection

from assets import find_pipeline
from platform_defs.contract.pipeline import Pipeline
from platform_defs.definitions import compose, defs
from tests.world import renamed

GRAPH = {
    "kafka/bank.transfers": ("bank", []),
    "bank/postings": ("bank", ["kafka/bank.transfers"]),
    "bank/balances": ("bank", ["bank/postings"]),
    "kafka/crm.customers": ("crm", []),
    "crm/customers": ("crm", ["kafka/crm.customers"]),
    "kafka/web.page_views": ("web", []),
    "web/page_views": ("web", ["kafka/web.page_views"]),
}
SHIPPED = {"bank", "crm", "web"}
POSTINGS_CHECKS = {
    "not_halted",
    "message_decodes",
    "transfer_id_required",
    "transfer_id_pattern",
    "debit_account_required",
    "debit_account_pattern",
    "credit_account_required",
    "credit_account_pattern",
    "amount_required",
    "amount_minimum",
    "amount_maximum",
    "currency_required",
    "currency_enum",
    "occurred_at_required",
    "memo_max_length",
    "row_is_accepted",
    "postings_sum_to_zero",
    "postings_of_usual_size",
    "postings_row_count",
}


def test_the_graph_is_topics_then_row_tables_then_their_sums() -> None:
    graph = defs.resolve_asset_graph()
    nodes = {key: graph.get(key) for key in graph.get_all_asset_keys()}
    shape = {
        key.to_user_string(): (node.group_name, sorted(parent.to_user_string() for parent in node.parent_keys))
        for key, node in nodes.items()
    }
    assert {key: node for key, node in shape.items() if node[0] in SHIPPED} == GRAPH


def test_every_rule_of_a_contract_is_a_check_and_verify_is_a_check_of_the_topic() -> None:
    checks = [(key.asset_key.to_user_string(), key.name) for key in defs.resolve_asset_graph().asset_check_keys]
    assert {name for asset, name in checks if asset == "bank/postings"} == POSTINGS_CHECKS
    assert set(checks) >= {
        ("kafka/bank.transfers", "verify_bank_transfers"),
        ("kafka/crm.customers", "verify_crm_customers"),
        ("kafka/web.page_views", "verify_web_page_views"),
    }
    assert len(checks) == len(set(checks))


def test_materializing_everything_does_not_read_every_topic_again() -> None:
    graph = defs.resolve_asset_graph()
    selected = AssetSelection.all().resolve(graph)
    assert all(key.path[0] != "kafka" for key in selected)


def test_only_a_blocking_rule_makes_a_blocking_check() -> None:
    specs = [spec for checks in defs.assets or [] for spec in getattr(checks, "check_specs", [])]
    blocking = [spec.name for spec in specs if spec.blocking and spec.key.asset_key.path[0] in SHIPPED]
    assert blocking == ["postings_sum_to_zero"]


def test_a_table_shows_its_columns_with_types_and_classification() -> None:
    spec = next(spec for spec in defs.resolve_all_asset_specs() if spec.key == AssetKey(["bank", "postings"]))
    columns = {column.name: column for column in spec.metadata["dagster/column_schema"].columns}
    assert columns["amount"].type == "numeric(18,2)"
    assert not columns["amount"].constraints.nullable
    assert columns["account"].tags == {"classification": "confidential"}
    assert spec.freshness_policy is not None


def test_one_job_and_one_sensor_serve_all_pipelines() -> None:
    repository = defs.get_repository_def()
    jobs = {job.name for job in repository.get_all_jobs()}
    assert {name for name in jobs if not name.startswith("__")} == {"drain", "prune", "verify"}
    assert {sensor.name for sensor in repository.sensor_defs} - {"broken_contracts"} == {"lag", "topics"}
    assert [schedule.name for schedule in repository.schedule_defs] == ["nightly_prune", "nightly_verify"]


def test_tables_whose_outputs_have_one_name_in_dagster_load_together_all_the_same() -> None:
    shipped = find_pipeline("web_page_views")

    def called(pipeline: str, table: str) -> Pipeline:
        contract = renamed(shipped.contract, pipeline)
        row_table = replace(contract.row_table, name=table, batch_rules=())
        return replace(shipped, contract=replace(contract, tables=(row_table,)))

    both = compose([called("one", "a.b__c"), called("two", "a__b.c")])
    both.get_repository_def().load_all_definitions()
    assert {AssetKey(["a", "b__c"]), AssetKey(["a__b", "c"])} <= both.resolve_asset_graph().get_all_asset_keys()
