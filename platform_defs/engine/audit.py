"""Step 6: the contract's rules over a whole batch, judged before the batch is real.

Great Expectations reads the staged rows of the winners through a view, over a connection of its own. The row rules
were applied in the tasks; here they are only counted, so that each of them is a check result as well.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from platform_defs.contract.model import BatchRule, CheckResult, Contract
from platform_defs.errors import BadInput, GateFailed, LedgerAway

Faults = Mapping[tuple[str, str], tuple[int, list[dict[str, Any]]]]
SAMPLES = 10
DECODES = "message_decodes"
REFUSED = "row_is_accepted"
OF_MESSAGES = {
    DECODES: "The message is a JSON object whose fields have the contract's types.",
    REFUSED: "Neither the transform nor the table refuses what the message says.",
}


def warm_up() -> None:
    """Import Great Expectations in the background: it takes six seconds, which Spark's start takes too."""
    threading.Thread(target=_library, name="import great_expectations", daemon=True).start()


def row_check_names(contract: Contract) -> list[str]:
    """The checks that count messages: decoding, each row rule, and rows that the transform or table refused."""
    return [DECODES, *(rule.name for rule in contract.row_rules), REFUSED]


def row_check_descriptions(contract: Contract) -> dict[str, str]:
    """`row_check_names`, each with what it demands of a message."""
    told = OF_MESSAGES | {rule.name: rule.description for rule in contract.row_rules}
    return {name: told[name] for name in row_check_names(contract)}


def row_checks(contract: Contract, faults: Faults, messages: int) -> list[CheckResult]:
    """A result for each of `row_check_names`. They warn: what they failed is a dead letter already."""
    table = contract.row_table.name
    found: dict[str, tuple[int, list[dict[str, Any]]]] = {}
    for (stage, error_class), (count, samples) in faults.items():
        name = {"decode": DECODES, "check": error_class}.get(stage, REFUSED)
        before = found.get(name, (0, []))
        found[name] = (before[0] + count, (before[1] + samples)[:SAMPLES])
    return [
        CheckResult(
            name,
            table,
            "warning",
            name not in found,
            {"messages": messages, "failed": found.get(name, (0, []))[0], "samples": found.get(name, (0, []))[1]},
        )
        for name in row_check_names(contract)
    ]


def batch_checks(rules: Sequence[BatchRule], url: str, schema: str, view: str) -> list[CheckResult]:
    """The results of `rules` on the rows of `schema.view`.

    Raises BadInput where a rule cannot be evaluated at all, LedgerAway where Postgres cannot be asked.
    """
    if not rules:
        return []
    gx = _library()
    try:
        source = _source(url)
        asset = source.add_table_asset(name=view, table_name=view, schema_name=schema)
    except ConnectionError as error:  # Great Expectations' TestConnectionError
        raise LedgerAway(
            f"the audit could not read {schema}.{view}: {str(error).partition(chr(10))[0]}. It is tried again."
        ) from error
    try:
        batch = asset.add_batch_definition_whole_table("whole").get_batch()
        return [_judge(batch, gx, rule) for rule in rules]
    finally:
        source.delete_asset(view)


def gate(pipeline: str, batch_id: int, checks: Sequence[CheckResult]) -> None:
    """Raise GateFailed when a blocking check failed."""
    failed = [check for check in checks if not check.passed and check.severity == "blocking"]
    if failed:
        names = ", ".join(f"{check.name} on {check.table} ({_brief(check.observed)})" for check in failed)
        raise GateFailed(
            f"{pipeline}: batch {batch_id} failed {names}. Nothing was published and the offsets stay. Correct the"
            " contract's rule or what produces the messages; the same offsets are judged again on the next try.",
            checks,
        )


def _judge(batch: Any, gx: Any, rule: BatchRule) -> CheckResult:
    expectation = _expectation(gx, rule)
    result = batch.validate(
        expectation, result_format={"result_format": "BOOLEAN_ONLY" if _per_row(expectation) else "SUMMARY"}
    )
    observed: dict[str, Any] = {"rule": rule.description}
    if not result.success and _per_row(expectation):  # only now is it worth asking which rows
        result = batch.validate(expectation, result_format=_SAMPLED)
    if (exception := _exception(result.exception_info)) is not None:
        raise BadInput(f"rule {rule.name} cannot be evaluated: {exception}", field=f"{rule.table}.{rule.name}")
    return CheckResult(rule.name, rule.table, rule.severity, bool(result.success), observed | _observed(result.result))


def _expectation(gx: Any, rule: BatchRule) -> Any:
    kind = getattr(gx.expectations, rule.expectation, None)
    if kind is None:
        raise BadInput(f"Great Expectations has no {rule.expectation}", field=f"{rule.table}.{rule.name}")
    try:
        return kind(**rule.arguments)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"rule {rule.name}: {rule.expectation} does not take these arguments: {error}",
            field=f"{rule.table}.{rule.name}",
        ) from error


def _per_row(expectation: Any) -> bool:
    """Whether the expectation maps over rows, and so can name the rows that failed."""
    return type(expectation).__name__.startswith("ExpectColumnValues") or "Pair" in type(expectation).__name__


_SAMPLED = {
    "result_format": "COMPLETE",
    "unexpected_index_column_names": ["_partition", "_offset"],
    "partial_unexpected_count": SAMPLES,
    "return_unexpected_index_query": False,
}


def _observed(result: Mapping[str, Any]) -> dict[str, Any]:
    """JSON of what was seen: the value, or how many rows failed with samples by partition and offset."""
    seen: dict[str, Any] = {}
    if "observed_value" in result:
        seen["observed_value"] = _plain(result["observed_value"])
    if "unexpected_count" in result:
        seen["failed"] = result["unexpected_count"]
        places = result.get("unexpected_index_list") or []
        seen["samples"] = [
            {
                ("partition" if k == "_partition" else "offset" if k == "_offset" else k): _plain(v)
                for k, v in place.items()
            }
            for place in places[:SAMPLES]
        ]
    return seen


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _brief(observed: Mapping[str, Any]) -> str:
    if "observed_value" in observed:
        return f"observed {observed['observed_value']}"
    return f"{observed.get('failed', 'some')} rows failed"


def _exception(info: Mapping[str, Any] | None) -> str | None:
    """A broken rule does not raise in Great Expectations: it is told in exception_info, flat or by metric."""
    if not info:
        return None
    nested = [info] if "raised_exception" in info else list(info.values())
    return next((str(item.get("exception_message")) for item in nested if item.get("raised_exception")), None)


@cache
def _library() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations

    return great_expectations


@cache
def _source(url: str) -> Any:
    """One ephemeral context and one datasource for each process and database."""
    context = _library().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    # Pinged before use: a connection that is kept in the pool does not outlive a restart of Postgres.
    return context.data_sources.add_sql(name="staging", connection_string=url, kwargs={"pool_pre_ping": True})
