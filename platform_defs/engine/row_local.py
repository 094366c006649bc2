"""Is a transform row-local? Asked of Spark's analyzed plan, before a single message is read.

Only then does every message's fate depend on that message alone, so that batches may be cut anywhere (I8), and only
then does Spark pull each range once and to its end. Source of the node names: Spark 4 catalyst, plans/logical.
"""

from typing import Any

from pyspark.sql import DataFrame

from platform_defs.engine.errors import BadInput

ALLOWED = {"Project", "Filter", "Generate", "SubqueryAlias", "MapInArrow", "Range", "ResolvedHint", "View"}
INSTEAD = {
    "Aggregate": "declare the sum as an accumulate table in the contract, or make a downstream asset of it",
    "Deduplicate": "declare the table as upsert, or remove duplicates in a downstream asset",
    "Distinct": "declare the table as upsert, or remove duplicates in a downstream asset",
    "Window": "look across rows in a downstream asset",
    "Sort": "tables have no order: sort where you read",
    "GlobalLimit": "use a filter: a limit would drop messages at random",
    "LocalLimit": "use a filter: a limit would drop messages at random",
    "Offset": "use a filter: an offset would drop messages at random",
    "Tail": "use a filter: it would drop messages at random",
    "Sample": "use a filter on a field: a sample would drop messages at random",
    "Repartition": "leave the partitions alone: each is one range of offsets",
    "RepartitionByExpression": "leave the partitions alone: each is one range of offsets",
    "RebalancePartitions": "leave the partitions alone: each is one range of offsets",
    "Union": "read each topic in a pipeline of its own",
    "Join": "join only a small static DataFrame, as broadcast(lookup), inner or left",
}  # fmt: skip


def check_row_local(source: DataFrame, result: DataFrame, *, where: str) -> None:
    """Raise BadInput naming the operator and what to do instead, unless `result` is row-local over `source`.

    `where` is the transform's file, for the message.
    """
    origin = _plan(source)
    found = _count_reads(_plan(result), origin)
    if found != 1:
        raise BadInput(f"the transform reads its input {found} times; it must read it exactly once, or messages would be "
                       "lost or doubled. Build one DataFrame out of the one you are given", file=where)  # fmt: skip
    _walk(_plan(result), origin, where)


def check_columns(result: DataFrame, wanted: dict[str, str], *, where: str) -> None:
    """Raise BadInput unless `result` has the columns `wanted` (name to Spark type): COPY stores bits, so types are exact."""
    given = {item.name: item.dataType.simpleString() for item in result.schema.fields}
    for name, kind in wanted.items():
        if name not in given:
            keep = " (pass it through: it says which message a row came from)" if name.startswith("_") else ""
            raise BadInput(f"the transform returns no column {name}{keep}; it returns {', '.join(given)}", file=where, field=name)
        if given[name] != kind:
            raise BadInput(f"the transform returns {name} as {given[name]}, the contract says {kind}; add "
                           f'.cast("{kind}")', file=where, field=name)  # fmt: skip
    for name in given.keys() - wanted.keys():
        raise BadInput(f"the transform returns {name}, which the contract's table does not have", file=where, field=name)


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _walk(node: Any, origin: Any, where: str) -> None:
    if _is(node, origin):
        return
    name = node.nodeName()
    if name == "Join":
        _walk(_streamed_side(node, origin, where), origin, where)
    elif name not in ALLOWED:
        instead = INSTEAD.get(name, "select, filter, explode and broadcast lookups are what a transform may use")
        raise BadInput(f"the transform uses {name}, which looks beyond one message; {instead}", file=where)
    else:
        for child in _children(node):
            _walk(child, origin, where)
    _check_expressions(node, name, where)


def _check_expressions(node: Any, name: str, where: str) -> None:
    expressions = node.expressions()
    for i in range(expressions.size()):
        expression = expressions.apply(i)
        if not expression.deterministic():
            raise BadInput(f"the transform computes {expression.toString()} ({name}), which gives another result each time; a "
                           "batch that is read again must give the same rows. Derive it from the message", file=where)  # fmt: skip
        text = expression.getClass().getSimpleName()
        if "subquery" in expression.toString() and _has_subquery(expression):
            raise BadInput(f"the transform uses a subquery ({text}); join a broadcast(lookup) instead", file=where)


def _has_subquery(expression: Any) -> bool:
    if "Subquery" in expression.getClass().getSimpleName():
        return True
    return any(_has_subquery(child) for child in _children(expression))


def _streamed_side(join: Any, origin: Any, where: str) -> Any:
    """The side of a broadcast lookup that holds the messages; BadInput for any other join."""
    kind = join.joinType().sql()
    left, right = join.left(), join.right()
    hinted = right.nodeName() == "ResolvedHint" and "broadcast" in right.toString().lower()
    if not hinted or kind not in ("INNER", "LEFT OUTER") or _count_reads(right, origin):
        raise BadInput(f"the transform uses Join ({kind.lower()}); {INSTEAD['Join']}", file=where)
    return left


def _count_reads(node: Any, origin: Any) -> int:
    return 1 if _is(node, origin) else sum(_count_reads(child, origin) for child in _children(node))


def _is(node: Any, origin: Any) -> bool:
    """Whether `node` is the decoded source: the same MapInArrow (its output ids may be renamed by a self join)."""
    return node.nodeName() == origin.nodeName() and node.canonicalized().equals(origin.canonicalized())


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(i) for i in range(children.size())]
