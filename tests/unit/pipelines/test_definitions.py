"""The definitions that Dagster loads: the graph of the shipped pipelines, as a snapshot.

A topic that is added to assets/ makes no test fail here.
"""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from dagster import AssetExecutionContext, AssetKey, AssetsDefinition, AssetSelection, Definitions

from platform_defs import definitions
from platform_defs.code_location import compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import pipeline_mistake
from platform_defs.dagster import storage
from platform_defs.definitions import defs
from platform_defs.errors import BadInput
from platform_defs.producers.message import Message
from platform_defs.producers.written_topics import topic_asset
from platform_defs.settings.contracts import find_pipeline
from tests.support.world import renamed

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
    assert all(column.description for column in columns.values())
    assert columns["_offset"].description == "Offset of the message that the row came from."
    assert str(spec.metadata["transform"].value).endswith("assets/bank/transfers.py")
    assert spec.freshness_policy is not None


def test_a_dagster_yaml_of_version_0_2_still_finds_its_classes() -> None:
    former = import_module("resources.dagster.storage")
    assert (former.Storage, former.Logs, former.Artifacts) == (storage.Storage, storage.Logs, storage.Artifacts)


def test_the_code_location_of_the_clone_is_found_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert AssetKey(["bank", "postings"]) in definitions.load().resolve_asset_graph().get_all_asset_keys()


def test_one_job_and_one_sensor_serve_all_pipelines() -> None:
    repository = defs.get_repository_def()
    jobs = {job.name for job in repository.get_all_jobs()}
    assert {name for name in jobs if not name.startswith("__")} == {"drain", "prune", "verify"}
    assert {sensor.name for sensor in repository.sensor_defs} - {"broken_contracts"} == {"lag", "topics"}
    schedules = {schedule.name for schedule in repository.schedule_defs}
    assert schedules == {"nightly_prune", "nightly_verify", "weekly_whole_verify"}


def called(pipeline: str, table: str, topic: str = "web.page_views") -> Pipeline:
    """Return a shipped pipeline under another id, with one table, reading another topic."""
    shipped = find_pipeline("web_page_views")
    contract = renamed(shipped.contract, pipeline)
    row_table = replace(contract.row_table, name=table, batch_rules=())
    return replace(shipped, contract=replace(contract, tables=(row_table,), topic=topic))


def ops_of(definitions: Definitions) -> set[str]:
    Definitions.validate_loadable(definitions)
    jobs = definitions.get_repository_def().get_all_jobs()
    return {node.name for job in jobs for node in job.all_node_defs}


def test_pipelines_of_one_topic_share_its_asset_and_have_a_check_each() -> None:
    both = compose([called("one", "a.t", "x.y"), called("two", "b.t", "x.y")])
    assert ops_of(both) == {
        "drain_topics",
        "check_topics",
        "observe_topics",
        "prune_ledger",
        "verify_one",
        "verify_two",
    }
    graph = both.resolve_asset_graph()
    topic = AssetKey(["kafka", "x.y"])
    assert {key for key in graph.get_all_asset_keys() if key.path[0] == "kafka"} == {topic}
    assert {key.name for key in graph.asset_check_keys if key.asset_key == topic} == {
        "verify_one",
        "verify_two",
        "topic_matches_contract",
        "replicas_in_sync",
        "groups_within_retention",
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("z", "x_verify_y"), ("y_verify_z", "x")),
        (("one", "x.y"), ("two", "x_y")),
        (("write_two", "x"), ("two", "y")),
        (("reader", "x"), ("all", "X")),
    ],
)
def test_no_ids_and_topics_collide_in_dagster(first: tuple[str, str], second: tuple[str, str]) -> None:
    one, two = called(first[0], "a.t", first[1]), called(second[0], "b.t", second[1])

    @topic_asset(two.contract)
    def messages(context: AssetExecutionContext) -> Iterator[Message]:
        yield from ()

    assert not any(pipeline_mistake(item.name) for item in (one, two))
    names = {f"verify_{one.name}", f"verify_{two.name}", f"write_{two.name}"}
    ops = {"drain_topics", "check_topics", "observe_topics", "prune_ledger"}
    assert ops_of(compose([one, two], written=[messages])) == {*ops, *names}


def test_two_assets_that_write_one_topic_are_refused_with_a_sentence() -> None:
    pair = [called("one", "a.t", "x.y"), called("two", "b.t", "x.y")]

    def of(pipeline: Pipeline) -> AssetsDefinition:
        @topic_asset(pipeline.contract)
        def messages(context: AssetExecutionContext) -> Iterator[Message]:
            yield from ()

        return messages

    with pytest.raises(BadInput, match=r"write_one and write_two both write topic x\.y; .* one of them"):
        compose(pair, written=[of(item) for item in pair])


def test_tables_whose_outputs_have_one_name_in_dagster_load_together_all_the_same() -> None:
    both = compose([called("one", "a.b__c"), called("two", "a__b.c")])
    both.get_repository_def().load_all_definitions()
    assert {AssetKey(["a", "b__c"]), AssetKey(["a__b", "c"])} <= both.resolve_asset_graph().get_all_asset_keys()
