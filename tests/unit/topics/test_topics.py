"""A topic that several pipelines read: one asset, one observation, and a verify check for each pipeline."""

from dataclasses import replace

from dagster import AssetCheckKey, AssetKey, AssetObservation, DagsterInstance, build_sensor_context

from platform_defs.code_location import compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.settings.contracts import find_pipeline
from platform_defs.stack.endpoints import Endpoints
from platform_defs.topics.dagster.assets import by_topic, topic_spec
from platform_defs.topics.dagster.sensor import PAGE, REPEATED, News, checked, next_page, topic_assets
from tests.support.world import renamed


def readers() -> list[Pipeline]:
    """Return two pipelines on one topic: bank_transfers, and one with its keys optional, and channel for memo."""
    first = find_pipeline("bank_transfers")
    contract = replace(renamed(first.contract, "bank_audit"), topic=first.contract.topic)
    memo = next(item for item in contract.fields if item.name == "memo")
    optional = tuple(replace(item, required=False, rules=()) for item in contract.fields if item is not memo)
    more = replace(memo, name="channel", physical_path=("source", "channel"), rules=())
    return [first, replace(first, contract=replace(contract, fields=(*optional, more)))]


def test_a_topic_is_one_asset_and_has_a_verify_check_for_each_pipeline() -> None:
    graph = compose(readers()).resolve_asset_graph()
    topic = AssetKey(["kafka", "bank.transfers"])
    assert {key for key in graph.asset_check_keys if key.asset_key == topic} == {
        AssetCheckKey(topic, "verify_bank_transfers"),
        AssetCheckKey(topic, "verify_bank_audit"),
        AssetCheckKey(topic, "topic_matches_contract"),
        AssetCheckKey(topic, "replicas_in_sync"),
        AssetCheckKey(topic, "groups_within_retention"),
    }
    children = {key.to_user_string() for key in graph.get(topic).child_keys}
    assert children == {"bank/postings", "bank_audit/postings"}


def test_a_topic_is_shown_as_observed_by_the_sensor() -> None:
    definitions = compose(readers())
    topic = AssetKey(["kafka", "bank.transfers"])
    assert definitions.resolve_asset_graph().get(topic).is_observable
    selection = definitions.get_repository_def().get_sensor_def("topics").asset_selection
    assert selection
    assert selection.resolve(definitions.resolve_asset_graph()) == {topic}


def test_topics_whose_names_are_one_in_dagster_are_observed_by_two_ops() -> None:
    shipped = find_pipeline("bank_transfers").contract
    contracts = [replace(renamed(shipped, id_), topic=topic) for id_, topic in (("one", "x.y"), ("two", "x_y"))]
    ops = [{*one.node_keys_by_output_name} for one in topic_assets(by_topic(contracts))]
    assert ops == [{"kafka__x_y"}, {"kafka__x_y"}]
    graph = compose([Pipeline(contract) for contract in contracts]).resolve_asset_graph()
    assert all(graph.get(AssetKey(["kafka", contract.topic])).is_observable for contract in contracts)


def test_the_repository_of_two_pipelines_on_a_topic_loads() -> None:
    repository = compose(readers()).get_repository_def()
    repository.load_all_definitions()
    assert {job.name for job in repository.get_all_jobs()} >= {"drain", "verify"}


def test_the_topics_schema_is_what_all_of_its_contracts_say() -> None:
    contracts = [pipeline.contract for pipeline in readers()]
    (topic,) = by_topic(contracts)
    spec = topic_spec(topic)
    columns = {column.name: column for column in spec.metadata["dagster/column_schema"].columns}
    assert set(columns) == {item.name for item in contracts[0].fields} | {"source.channel"}
    assert columns["amount"].constraints.nullable  # one of the pipelines takes messages without it
    assert any("EUR" in rule for rule in columns["currency"].constraints.other)
    assert columns["source.channel"].constraints.nullable
    named = f"Column currency of {contracts[0].row_table.name}. Column currency of {contracts[1].row_table.name}."
    assert columns["currency"].description == named
    assert columns["debit_account"].description == "Read by the transform."
    assert spec.metadata["pipelines"] == "bank_transfers, bank_audit"
    assert "bank_transfers" in (spec.description or "")
    assert "bank_audit" in (spec.description or "")


def test_every_topic_is_recorded_in_turn_a_page_in_each_tick() -> None:
    topics = [f"t{number:03}" for number in range(2 * PAGE + 1)]
    cursor, pages = None, list[list[str]]()
    for _ in range(4):
        page, cursor = next_page(topics[::-1], cursor)
        pages.append(list(page))
    assert pages == [topics[:PAGE], topics[PAGE : 2 * PAGE], topics[2 * PAGE :], topics[:PAGE]]


def test_a_page_goes_on_after_a_topic_that_is_gone() -> None:
    assert next_page(["a", "c"], "b") == (["c"], "")
    assert next_page(["a"], "z") == (["a"], "")
    assert next_page([], None) == ([], "")


def test_a_topic_in_which_nothing_changes_is_recorded_once_an_hour() -> None:
    def recorded(ends: dict[str, int], now: float) -> list[str]:
        seen = [AssetObservation(AssetKey(name), metadata={"end_offsets": end}) for name, end in ends.items()]
        return [item.asset_key.to_user_string() for item in news.among(seen, now)]

    news = News()
    assert recorded({"a": 1, "b": 1}, 10_000.0) == ["a", "b"]
    assert recorded({"a": 1, "b": 2}, 10_060.0) == ["b"]
    assert recorded({"a": 1, "b": 2}, 10_001.0 + REPEATED) == ["a"]


def test_checks_that_cannot_be_judged_leave_the_observations_of_a_tick() -> None:
    topics = by_topic([find_pipeline("bank_transfers").contract])
    refused = Endpoints("", "127.0.0.1:1", {"security.protocol": "none such"})
    with DagsterInstance.ephemeral() as instance, build_sensor_context(instance=instance) as context:
        assert checked(topics, refused, context) == []
