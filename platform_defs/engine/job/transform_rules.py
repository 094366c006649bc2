"""Decides from Spark's analyzed plan, before a message is read, whether a transform is row-local.

Only then do the rows of a message depend on that message alone, so that batches may be cut anywhere (I8), and only then
does Spark pull each range once and to its end. Source of the node names: Spark 4 catalyst, plans/logical.
"""

import re
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.util import PythonEvalType

from platform_defs.errors import BadInput

ALLOWED = {"Project", "Filter", "Generate", "Expand", "SubqueryAlias", "View", "ResolvedHint"}
GROUP = "declare the sum as an accumulate table in the contract, or compute it in a downstream asset"
ALONE = "do not repartition: each partition is one range of offsets"
ITERATOR = "write it as a UDF: a function over batches of rows can look across messages"
TWICE = (
    "read each topic in its own pipeline, and use the messages only once; to make several rows from one message, "
    "use explode()"
)
INSTEAD = {
    "Aggregate": GROUP,
    "FlatMapGroupsInPandas": GROUP,
    "Deduplicate": "declare the table as upsert, or remove duplicates in a downstream asset",
    "Distinct": "declare the table as upsert, or remove duplicates in a downstream asset",
    "Window": "look across rows in a downstream asset",
    "Sort": "tables have no order: sort when you read them",
    "GlobalLimit": "use a filter: a limit would drop messages at random",
    "LocalLimit": "use a filter: a limit would drop messages at random",
    "Offset": "use a filter: an offset would drop messages at random",
    "Tail": "use a filter: it would drop messages at random",
    "Sample": "use a filter on a field: a sample would drop messages at random",
    "Repartition": ALONE,
    "RepartitionByExpression": ALONE,
    "RebalancePartitions": ALONE,
    "MapInArrow": ITERATOR,
    "MapInPandas": ITERATOR,
    "Union": TWICE,
    "Intersect": TWICE,
    "Except": TWICE,
    "Join": "join only a small static DataFrame, as messages.join(broadcast(lookup), ...), inner or left",
    "LateralJoin": "join only a small static DataFrame, as messages.join(broadcast(lookup), ...), inner or left",
}


# Functions that get all Arrow batches of a task, one after another.
ITERATORS = {PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF, PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF}


def check_row_local(source: DataFrame, result: DataFrame, *, where: str) -> None:
    """Raise BadInput naming the operator and what to do instead, unless `result` is row-local over `source`.

    `where` is the transform's file, for the message.
    """
    origin, plan = _plan(source), _plan(result)
    if not _count_reads(plan, origin):
        raise BadInput(
            "the transform returns something that is not built from the messages it is given (another DataFrame, "
            "or the messages after .rdd or a checkpoint); every message would be lost. Build the result from the "
            "transform's argument",
            file=where,
        )
    if shared := re.search(r"\bSubqueryAlias (global_temp\.\S+)", plan.toString()):
        raise BadInput(
            f"the transform reads {shared[1]}, which all pipelines of a run share: another one may have replaced "
            "it. Use createOrReplaceTempView, whose views are private to the transform",
            file=where,
        )
    _walk(plan, origin, where)
    # `_offset` and the like must be the source's own attributes, not others of the same name.
    given = {item.name(): item.exprId() for item in _items(origin.output()) if item.name().startswith("_")}
    for item in _items(plan.output()):
        if item.name() in given and not item.exprId().equals(given[item.name()]):
            raise BadInput(
                f"the transform computes {item.name()}; pass it through unchanged: it identifies the message that "
                "a row came from",
                file=where,
                field=item.name(),
            )
    fresh: Any = result.select("*")  # a frame that was run before remembers a plan without the cache
    if not _count_reads(fresh._jdf.queryExecution().withCachedData(), origin):
        raise BadInput(
            "the transform caches the messages; they are read once, and a copy of them would stay in memory. "
            "Leave out .cache() and .persist()",
            file=where,
        )


def check_columns(result: DataFrame, wanted: dict[str, str], *, where: str) -> None:
    """Raise BadInput unless `result` has the columns `wanted` (name to Spark type): COPY stores bits, so types are
    exact.
    """
    given = {item.name: item.dataType.simpleString() for item in result.schema.fields}
    if twice := [name for name in given if result.columns.count(name) > 1]:
        raise BadInput(f"the transform returns {twice[0]} more than once", file=where, field=twice[0])
    for name, kind in wanted.items():
        if name not in given:
            keep = " (pass it through: it identifies the message that a row came from)" if name.startswith("_") else ""
            raise BadInput(
                f"the transform returns no column {name}{keep}; it returns {', '.join(given)}", file=where, field=name
            )
        if given[name] != kind:
            raise BadInput(
                f'the transform returns {name} as {given[name]}, but the contract says {kind}; add .cast("{kind}")',
                file=where,
                field=name,
            )
    for name in given.keys() - wanted.keys():
        raise BadInput(
            f"the transform returns {name}, which the contract's table does not have", file=where, field=name
        )


def _plan(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _walk(node: Any, origin: Any, where: str) -> None:
    if _is(node, origin):
        return
    name = node.nodeName()
    if name == "Join":
        _walk(_streamed_side(node, origin, where), origin, where)
    elif name not in ALLOWED:
        instead = INSTEAD.get(name, "a transform may only use select, filter, explode and broadcast lookups")
        raise BadInput(f"the transform uses {name}, whose result depends on other messages; {instead}", file=where)
    else:
        for child in _children(node):
            _walk(child, origin, where)
    for expression in _items(node.expressions()):
        if _varies(expression):
            raise BadInput(
                f"the transform computes {expression.toString()} ({name}), whose result differs each time, but a "
                "batch that is read again must give the same rows. Derive the value from the message",
                file=where,
            )
        if _contains(expression, "PYTHON_UDF") and (iterating := _iterating(expression)):
            raise BadInput(
                f"the transform uses {iterating}, a function over an Iterator, which sees all messages that a task "
                "reads; write it over a Series or an Array, and cache what it loads in a function with "
                "functools.cache",
                file=where,
            )
        if _contains(expression, "PLAN_EXPRESSION"):
            raise BadInput(
                f"the transform uses a subquery ({expression.toString()}); join a broadcast(lookup) instead", file=where
            )


def _iterating(expression: Any) -> str | None:
    """Return the name of a function over an Iterator in the expression, if there is one."""
    if expression.nodeName() == "PythonUDF" and expression.evalType() in ITERATORS:
        return str(expression.name())
    return next(filter(None, map(_iterating, _children(expression))), None)


def _varies(node: Any) -> bool:
    """Return True if a plan or expression may give another result next time: rand(), uuid(), or the current time, user
    or catalog.
    """
    return not node.deterministic() or _contains(node, "CURRENT_LIKE")


def _contains(node: Any, pattern: str) -> bool:
    """Return True if anything in `node` is of this kind (catalyst's TreePattern: one bit each, without a walk)."""
    context: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]  # PySpark names no other
    patterns = context._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    return node.containsPattern(getattr(patterns, pattern)())


def _streamed_side(join: Any, origin: Any, where: str) -> Any:
    """Return the side of a broadcast lookup that contains the messages. Raise BadInput for any other join."""
    kind = join.joinType().sql()
    left, right = join.left(), join.right()
    hinted = right.nodeName() == "ResolvedHint" and "broadcast" in right.hints().toString().lower()
    if not hinted or kind not in ("INNER", "LEFT OUTER") or _count_reads(right, origin):
        raise BadInput(f"the transform uses Join ({kind.lower()}); {INSTEAD['Join']}", file=where)
    if _varies(right):
        raise BadInput(
            "the transform joins a lookup that differs each time (rand(), current_timestamp() or the like); a batch "
            "that is read again must give the same rows",
            file=where,
        )
    return left


def _count_reads(node: Any, origin: Any) -> int:
    return 1 if _is(node, origin) else sum(_count_reads(child, origin) for child in _children(node))


def _is(node: Any, origin: Any) -> bool:
    """Return True if `node` is the decoded source: the same MapInArrow (its output ids may be renamed by a self
    join).
    """
    return node.nodeName() == origin.nodeName() and node.canonicalized().equals(origin.canonicalized())


def _children(node: Any) -> list[Any]:
    return _items(node.children())


def _items(sequence: Any) -> list[Any]:
    """Return a Scala Seq as a list."""
    return [sequence.apply(i) for i in range(sequence.size())]
