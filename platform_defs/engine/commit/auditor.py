"""Batch rules, evaluated by Great Expectations through SQL: the Auditor of engine/interfaces/broker_and_auditor.py.

Importing Great Expectations takes seconds, so this file imports it only when a rule is evaluated: no command, no sensor
and no pipeline without batch rules pays for it.
"""

import gc
import importlib.util
import os
import sys
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from math import isfinite, isnan
from typing import Any

from platform_defs.contract.model.classified import NOT_SHOWN
from platform_defs.contract.model.contract import BatchRule, CheckResult, Contract
from platform_defs.engine.commit.audit import SAMPLES
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
from platform_defs.errors import BadInput, LedgerAway, quoting
from platform_defs.postgres.connection import session_uri
from platform_defs.postgres.sqlalchemy_sessions import with_sessions


def warm_up(contracts: Iterable[Contract]) -> None:
    """Import Great Expectations in the background, while Spark starts, if one of the contracts has batch rules."""
    if any(contract.batch_rules for contract in contracts):
        threading.Thread(target=load, name="import great_expectations", daemon=True).start()


@dataclass(frozen=True)
class GreatExpectationsAuditor:
    """Evaluates batch rules in the database at `url` (a libpq URI), over its own connections."""

    url: str = field(repr=False)  # contains the password

    def evaluate(self, rules: Sequence[BatchRule], view: AuditView) -> list[CheckResult]:
        """See Auditor."""
        if not rules:
            return []
        with _evaluating:
            try:
                source = _source(with_sessions(session_uri(self.url, "tidegate audit")))
                asset = source.add_table_asset(name=view.name, table_name=view.name, schema_name=view.schema)
            except ConnectionError as error:  # Great Expectations' TestConnectionError
                message = str(error).partition("\n")[0]
                raise LedgerAway(f"the audit could not read {view.schema}.{view.name}: {message}.") from error
            try:
                batch = asset.add_batch_definition_whole_table("whole").get_batch()
                expectations = [_expectation(rule, number) for number, rule in enumerate(rules)]
                found = _at_once(batch, expectations)
                if any(_exception(one.exception_info) is not None for one in found):
                    # Several at once: it may blame any of them.
                    found = [batch.validate(one, result_format=_format(one)) for one in expectations]
                return [_evaluate(batch, *one) for one in zip(rules, expectations, found, strict=True)]
            finally:
                source.delete_asset(view.name)


# One at a time: Great Expectations keeps its context, data sources and assets in variables of the whole process.
_evaluating = threading.Lock()


def _at_once(batch: Any, expectations: Sequence[Any]) -> list[Any]:
    """Return Great Expectations' result for each. It evaluates them in one query if their kind allows it."""
    found: dict[int, Any] = {}
    for per_row in (False, True):
        if some := [one for one in expectations if _per_row(one) is per_row]:
            suite = load().ExpectationSuite(name="rules", expectations=some)
            results = batch.validate(suite, result_format=_format(some[0])).results  # in another order
            found |= {one.expectation_config.meta[_NUMBER]: one for one in results}
    return [found[number] for number in range(len(expectations))]


def _format(expectation: Any) -> str:
    return "BOOLEAN_ONLY" if _per_row(expectation) else "SUMMARY"


def _evaluate(batch: Any, rule: BatchRule, expectation: Any, result: Any) -> CheckResult:
    if not result.success and _per_row(expectation) and _exception(result.exception_info) is None:
        result = batch.validate(expectation, result_format=_SAMPLED)  # only now is it worth asking which rows
    if (exception := _exception(result.exception_info)) is not None:
        raise quoting(
            partial(BadInput, field=f"{rule.table}.{rule.name}"),
            f"rule {rule.name} cannot be evaluated: {exception}",
            f"the rule cannot be evaluated; the error {NOT_SHOWN}",
        )
    observed = {"rule": rule.description, **_observed(result.result)}
    return CheckResult(rule.name, rule.table, rule.severity, bool(result.success), observed)


_NUMBER = "tidegate_rule"


def _expectation(rule: BatchRule, number: int) -> Any:
    """Return the expectation, with its number among the rules."""
    kind = getattr(load().expectations, rule.expectation, None)
    if kind is None:
        raise BadInput(f"Great Expectations has no {rule.expectation}", field=f"{rule.table}.{rule.name}")
    try:
        return kind(**{**rule.arguments, "meta": {_NUMBER: number}})
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"rule {rule.name}: {rule.expectation} does not accept these arguments: {error}",
            field=f"{rule.table}.{rule.name}",
        ) from error


def _per_row(expectation: Any) -> bool:
    """Return True if the expectation maps over rows, and so can name the rows that failed."""
    return type(expectation).__name__.startswith("ExpectColumnValues") or "Pair" in type(expectation).__name__


_SAMPLED = {
    "result_format": "SUMMARY",  # COMPLETE fetches each failing value, to show ten places
    "unexpected_index_column_names": ["_partition", "_offset"],
    "partial_unexpected_count": SAMPLES,
    "return_unexpected_index_query": False,
}


def _observed(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the observation as JSON: the value, or how many rows failed with samples by partition and offset."""
    seen: dict[str, Any] = {}
    if "observed_value" in result:
        seen["observed_value"] = _plain(result["observed_value"])
    if "unexpected_count" in result:
        seen["failed"] = result["unexpected_count"]
        places: Sequence[Mapping[str, Any]] = result.get("partial_unexpected_index_list") or []
        # Great Expectations adds the column's value, which may be classified.
        seen["samples"] = [{"partition": place["_partition"], "offset": place["_offset"]} for place in places[:SAMPLES]]
    return seen


def _plain(value: Any) -> Any:
    """Return `value` in a form for JSON. NaN and the infinities, which JSON lacks, become Postgres' texts."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _exception(info: Mapping[str, Any] | None) -> str | None:
    """Return the error of a broken rule: Great Expectations reports it in exception_info, flat or by metric."""
    if not info:
        return None
    nested = [info] if "raised_exception" in info else list(info.values())
    return next((str(item.get("exception_message")) for item in nested if item.get("raised_exception")), None)


@cache
def load() -> Any:
    """Return the package great_expectations, imported at the first call."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with uncollected():
        import_at_first_use("scipy.stats")  # a quarter of the import time, and two kinds of rule use it
        import great_expectations

    return great_expectations


@cache
def _source(url: str) -> Any:
    """Return the one ephemeral context and datasource for each process and database."""
    context = load().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    # It saves itself with each asset, as YAML in memory, which takes longer than evaluating a small batch.
    context.variables.save = lambda: None
    # Pinged before use: a pooled connection does not outlive a restart of Postgres.
    return context.data_sources.add_sql(name="staging", connection_string=url, kwargs={"pool_pre_ping": True})


@contextmanager
def uncollected() -> Generator[None]:
    """Turn off garbage collection of cycles inside, in every thread: an import makes hundreds of thousands of objects
    that all stay, and each collection walks through them again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def import_at_first_use(name: str) -> None:
    """Make `from package import module` yield a module that is executed at the first access to an attribute.

    `name`: package.module. Does nothing if it is imported already. Raises ModuleNotFoundError without the package.
    """
    if name in sys.modules or (spec := importlib.util.find_spec(name)) is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    package, _, attribute = name.rpartition(".")
    setattr(sys.modules[package], attribute, module)  # or the package asks the module for its own specification
