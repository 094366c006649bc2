"""Names that a contract cannot take, since Dagster, Postgres or Tidegate itself uses them for something else.

The Dagster and Postgres names that a name becomes, with which it could collide:

    id (the pipeline)   the check verify_<id>, which is an op of that name; if Dagster writes the topic, write_<id>
    schema.table        the asset schema/table; in the op of all tables, the output schema__table
    a rule              an asset check of the table; in that op, the output schema__table_rule
    a topic             the asset kafka/<topic>, one for all the pipelines that read it
    a column            a column of the table, besides Tidegate's own (_batch_id, ...) and Postgres' (ctid, ...)
"""

import keyword
from collections.abc import Iterator

from platform_defs.contract.model.contract import Contract

REPLAY = "~replay"  # ends the name of a pipeline that is being rebuilt: no contract can have this name

# Dagster refuses these as the name of a job: dagster._core.definitions.utils.DISALLOWED_NAMES
DAGSTER_WORDS = frozenset(keyword.kwlist) | {
    *("context", "conf", "config", "meta", "arg_dict", "dict", "input_arg_dict", "output_arg_dict"),
    *("int", "str", "float", "bool", "input", "output", "type"),
}
JOBS = (  # jobs, schedules and sensors that serve all pipelines
    *("drain", "prune", "prune_ledger", "lag", "verify", "nightly_prune", "nightly_verify"),
    *("weekly_whole_verify", "topics", "writer_schemas", "check_topics"),
)
OP_PREFIXES = ("drain_", "verify_", "broken_")  # jobs and ops share one namespace
SCHEMAS = {
    "kafka": "assets of topics are named kafka/<topic>",
    "tidegate": "the ledger is kept there",
    "tidegate_staging": "batches are staged there",
    "dagster": "Dagster keeps its runs and events there",
    "information_schema": "it is internal to Postgres",
}
REPLAY_SCHEMA = "__replay"  # ends the name of the schema in which a replay builds its tables
SYSTEM_COLUMNS = ("cmax", "cmin", "ctid", "tableoid", "xmax", "xmin")
CONTRACT_LOADS, NOT_HALTED = "contract_loads", "not_halted"
MESSAGE_DECODES, ROW_IS_ACCEPTED = "message_decodes", "row_is_accepted"
WRITER_SCHEMAS_FIT = "writer_schemas_fit_contract"  # of a topic
TOPIC_MATCHES, REPLICAS_IN_SYNC = "topic_matches_contract", "replicas_in_sync"  # of a topic
GROUPS_WITHIN_RETENTION = "groups_within_retention"  # of a topic
CHECKS = (NOT_HALTED, MESSAGE_DECODES, ROW_IS_ACCEPTED, CONTRACT_LOADS)  # that every pipeline has


def pipeline_mistake(name: str) -> str | None:
    """Return why no pipeline can be called `name`; None if it can."""
    if name in DAGSTER_WORDS:
        return f"{name!r} is a reserved word in Dagster; choose another id"
    if name in JOBS:
        return f"{name!r} is the name of a job, schedule or sensor that serves all pipelines; choose another id"
    if prefix := next((item for item in OP_PREFIXES if name.startswith(item)), None):
        return f"{name!r}: ids that begin with {prefix} are reserved for Tidegate's own ops; choose another id"
    return None


def table_mistake(name: str) -> str | None:
    """Return why no table can be called `name` (schema.table); None if it can."""
    schema = name.partition(".")[0]
    if schema in SCHEMAS:
        return f"the schema {schema} is reserved: {SCHEMAS[schema]}; choose another schema"
    if schema.startswith("pg_"):
        return f"the schema {schema} is reserved: Postgres keeps pg_ for itself; choose another schema"
    if schema.endswith(REPLAY_SCHEMA):
        return f"the schema {schema} is reserved: replays build in schemas that end in {REPLAY_SCHEMA}; choose another"
    return None


def column_mistake(name: str) -> str | None:
    """Return why no column can be called `name`; None if it can."""
    if name.startswith("_"):
        return f"{name!r}: names that begin with _ are reserved for Tidegate's own columns"
    if name in SYSTEM_COLUMNS:
        return f"{name!r} is a system column of every Postgres table; choose another name"
    return None


def rule_mistake(name: str) -> str | None:
    """Return why no batch rule can be called `name`; None if it can."""
    return f"{name!r} is the name of one of Tidegate's own checks; choose another name" if name in CHECKS else None


def output_clash(contract: Contract) -> str | None:
    """Return a mistake for two things of the contract that would be one output of its Dagster op, such as table a.b__c
    and table a__b.c.
    """
    taken = dict[str, str]()
    for output, what in outputs(contract):
        if output in taken:
            return f"{taken[output]} and {what} would both be called {output} in Dagster; rename one of them"
        taken[output] = what
    return None


def outputs(contract: Contract) -> Iterator[tuple[str, str]]:
    """Yield the output of a Dagster op that each table and check becomes, with a description."""
    for table in contract.tables:
        yield _identifier(table.name), f"table {table.name}"
    rows = contract.row_table.name
    checks = [(rows, name) for name in (*CHECKS, *(rule.name for rule in contract.row_rules))]
    for table, name in (*checks, *((rule.table, rule.name) for rule in contract.batch_rules)):
        yield f"{_identifier(table)}_{name}", f"rule {name} of {table}"


def _identifier(table: str) -> str:
    """Return the name as Dagster makes it: AssetKey.to_python_identifier."""
    return table.replace(".", "__")
