"""One transaction puts a replay in place: rows, dead letters, batches and positions, or none of it.

Rows are deleted and inserted, never truncated, and tables keep their names and oids: whoever reads in a snapshot sees
the old rows to its end, everybody else the new ones at once, and grants, indexes and views stay.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from platform_defs.engine.contract import Table
from platform_defs.engine.errors import BadInput, LedgerAway, OutcomeUnknown, Retryable
from platform_defs.engine.ports import Pipeline
from platform_defs.engine.replay import History
from resources.ledger import Hold
from resources.postgres import DURABLE, application_name, connect, database_errors, queries
from resources.publication import hold
from resources.tables import Connection, check_target, drop_staging, identifier, own_columns

SAMPLES = 5
MARK = "tidegate replay"  # comment of the schemas that replays build in


@dataclass(frozen=True)
class Difference:
    """What would become of a table, or of the dead letters: rows there are and will be, and those in one of the two only."""

    name: str
    live: int
    anew: int
    only_live: int
    only_anew: int
    samples: tuple[dict[str, Any], ...] = ()


def begin(connection: Connection, live: Pipeline, built: Pipeline, from_batch: int, fingerprint: str) -> int:
    """Record the replay, and create its tables like the live ones, with their constraints and indexes; its id."""
    key = {"pipeline": live.name, "from_batch": from_batch, "fingerprint": fingerprint}
    (replay_id,) = connection.execute(queries()["begin_replay"], key).fetchone() or (0,)
    connection.execute(queries()["register_pipeline"], {"pipeline": built.name})
    for schema in _schemas(built):
        _own_schema(connection, schema)
    drop_tables(connection, built)  # a crash right after a replay was put in place leaves them
    for schema in _schemas(built):
        _own_schema(connection, schema)
    for old, new in _pairs(live, built):
        connection.execute(
            sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(identifier(new.name), identifier(old.name))
        )
    return replay_id


def _own_schema(connection: Connection, schema: str) -> None:
    """Make the schema; raises BadInput where somebody else has one of that name."""
    there = connection.execute("SELECT obj_description(to_regnamespace(%s), 'pg_namespace')", [schema]).fetchone()
    exists = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", [schema]).fetchone()
    if exists == (True,) and there != (MARK,):
        raise BadInput(f"there is a schema {schema} that is not a replay's; rename it, or the tables would be built in it",
                       field=schema)  # fmt: skip
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(schema), sql.Literal(MARK)))


def _schemas(built: Pipeline) -> set[str]:
    return {table.name.partition(".")[0] for table in built.contract.tables}


def apart(connection: Connection, live: Pipeline, built: Pipeline) -> bool:
    """Whether the two stand at different offsets, or in different logs."""
    return connection.execute(queries()["apart"], _key(live, built)).fetchone() is not None


def differences(connection: Connection, live: Pipeline, built: Pipeline, history: History) -> tuple[Difference, ...]:
    """Of each table, then of the dead letters."""
    tables = [_difference(connection, old, new, history) for old, new in _pairs(live, built)]
    with connection.cursor(row_factory=dict_row) as cursor:
        key = {**_key(live, built), "from_batch": history.from_batch}
        counts = cursor.execute(queries()["dead_letter_differences"], key).fetchone() or {}
    return (*tables, Difference("dead letters", **counts))


def put_in_place(held: Any, live: Pipeline, built: Pipeline, replay_id: int, history: History,
                 found: Sequence[Difference], reason: str, who: str) -> None:  # fmt: skip
    """All of it, as the pipeline's owner, or nothing. Raises Fenced, Retryable or BadInput: nothing was changed."""
    assert isinstance(held, Hold)  # noqa: S101  # resources.outside.hold gives no other
    try:
        with database_errors(), held.connection.transaction():
            held.connection.execute(DURABLE)
            _replace(held, live, built, replay_id, history)
            record = {"replay_id": replay_id, "executed_by": who, "reason": reason}
            differing = Jsonb([asdict(item) for item in found])
            held.connection.execute(queries()["end_replay"], {**record, "differences": differing})
            held.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except psycopg.IntegrityError as error:
        raise BadInput(f"a table of {live.name} refuses a row that was built anew: {str(error).strip()}. Nothing was changed",
                       field=live.name) from error  # fmt: skip
    except LedgerAway as error:
        _raise_unless_done(held.url, replay_id, error)


def _replace(held: Hold, live: Pipeline, built: Pipeline, replay_id: int, history: History) -> None:
    connection, key = held.connection, {**_key(live, built), "replay_id": replay_id, "from_batch": history.from_batch}
    # 1. Both pipelines' rows, locked: the live one as its owner, the building one with nobody at work on it.
    hold(connection, held.holder)
    if connection.execute(queries()["lock_builder"], key).fetchone() is None:
        raise Retryable(f"another replay of {live.name} is being built; nothing was changed")
    # 2. They stand at the same offsets of the same log.
    if apart(connection, live, built):
        raise Retryable(f"{live.name} has moved since its replay caught up; nothing was changed")
    # 3. The rows. COPY stored bits in the new tables, and they must mean the same here.
    for old, new in _pairs(live, built):
        check_target(connection, live.name, old)
        check_target(connection, built.name, new)
        _replace_rows(connection, old, new, history)
    # 4. Dead letters, batches and positions change hands. The ids of batches go on growing with their offsets.
    for name in ("keep_dead_letter_status", "take_dead_letters_away", "take_dead_letters_over", "replace_batches",
                 "take_batches_over", "take_positions_over", "renumber_pending", "forget_builder"):  # fmt: skip
        connection.execute(queries()[name], key)


def _replace_rows(connection: Connection, old: Table, new: Table, history: History) -> None:
    """An appended row goes and comes; a keyed one is changed in place, so that what refers to it stays."""
    names = [column.name for column in old.columns] + [name for name, _ in own_columns(old)]
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    parts: dict[str, sql.Composable] = {"old": identifier(old.name), "new": identifier(new.name), "columns": columns}
    if old.disposition == "append":
        connection.execute(
            sql.SQL("DELETE FROM {old} WHERE {scope}").format(scope=_scope(old, history.from_batch), **parts)
        )
        connection.execute(sql.SQL("INSERT INTO {old} ({columns}) SELECT {columns} FROM {new}").format(**parts))
        return
    keys = old.group_by if old.disposition == "accumulate" else ("_key",)
    key = sql.SQL(", ").join(map(sql.Identifier, keys))
    same = sql.SQL(" AND ").join(sql.SQL("o.{0} = n.{0}").format(sql.Identifier(name)) for name in keys)
    sets = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(n)) for n in names if n not in keys)
    connection.execute(
        sql.SQL("DELETE FROM {old} AS o WHERE NOT EXISTS (SELECT 1 FROM {new} AS n WHERE {same})").format(
            same=same, **parts
        )
    )
    connection.execute(
        sql.SQL("INSERT INTO {old} ({columns}) SELECT {columns} FROM {new} ORDER BY {key} ON CONFLICT ({key}) "
                "DO UPDATE SET {sets}").format(key=key, sets=sets, **parts))  # fmt: skip


def _difference(connection: Connection, old: Table, new: Table, history: History) -> Difference:
    """By everything but the batch that wrote a row."""
    names = [column.name for column in old.columns] + [name for name, _ in own_columns(old) if name != "_batch_id"]
    both = sql.SQL("WITH live AS (SELECT {columns} FROM {old} WHERE {scope}), anew AS (SELECT {columns} FROM {new}) ").format(
        columns=sql.SQL(", ").join(map(sql.Identifier, names)), old=identifier(old.name), new=identifier(new.name),
        scope=_scope(old, history.from_batch))  # fmt: skip
    only = {"live": sql.SQL("TABLE live EXCEPT ALL TABLE anew"), "anew": sql.SQL("TABLE anew EXCEPT ALL TABLE live")}
    counts = connection.execute(both + sql.SQL(
        "SELECT (SELECT count(*) FROM live), (SELECT count(*) FROM anew), "
        "(SELECT count(*) FROM ({live}) AS x), (SELECT count(*) FROM ({anew}) AS x)").format(**only)).fetchone()  # fmt: skip
    there, made, only_live, only_anew = counts or (0, 0, 0, 0)
    samples: list[dict[str, Any]] = []
    for side, query in only.items():
        taken = connection.execute(
            both + sql.SQL("SELECT row_to_json(x) FROM ({} LIMIT {}) AS x").format(query, SAMPLES)
        )
        samples += [{"only": side, **row} for (row,) in taken.fetchall()]
    return Difference(old.name, there, made, only_live, only_anew, tuple(samples))


def _scope(table: Table, from_batch: int) -> sql.Composable:
    """The live rows that a replay replaces."""
    return sql.SQL("_batch_id >= {}").format(from_batch) if table.disposition == "append" else sql.SQL("true")


def forget(connection: Connection, live: Pipeline, built: Pipeline) -> None:
    """Everything in the ledger about a replay that was not put in place. Whoever builds it at the moment is ended."""
    connection.execute("SET LOCAL lock_timeout = '30s'")
    row = connection.execute(queries()["lock_pipeline"], {"pipeline": built.name}).fetchone()
    if row is not None and row[1] is not None:
        connection.execute(queries()["end_sessions"], {"application_name": application_name(built.name, row[1])})
    everything = {"pipeline": built.name, "epoch": 2**62}
    for (staging_id,) in connection.execute(queries()["stale_staging"], everything).fetchall():
        drop_staging(connection, staging_id)
    connection.execute(queries()["forget_replay"], _key(live, built))
    connection.execute(queries()["forget_builder"], _key(live, built))


def drop_tables(connection: Connection, built: Pipeline) -> None:
    """The tables that were built, and their schema if nothing else is in it."""
    for table in built.contract.tables:
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(identifier(table.name)))
    for schema in _schemas(built):
        with suppress(psycopg.errors.DependentObjectsStillExist), connection.transaction():
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} RESTRICT").format(sql.Identifier(schema)))


def _raise_unless_done(url: str, replay_id: int, error: LedgerAway) -> None:
    """A COMMIT that went unanswered: the ledger knows."""
    try:
        with connect(url) as connection, database_errors():
            row = connection.execute(queries()["replayed"], {"replay_id": replay_id}).fetchone()
    except LedgerAway as away:
        raise OutcomeUnknown(f"whether replay {replay_id} is in place cannot be asked: {away} It is if executed_at is set in "
                             "tidegate.replay") from away  # fmt: skip
    if row is None or not row[0]:
        raise error


def _pairs(live: Pipeline, built: Pipeline) -> list[tuple[Table, Table]]:
    return list(zip(live.contract.tables, built.contract.tables, strict=True))


def _key(live: Pipeline, built: Pipeline) -> dict[str, Any]:
    return {"pipeline": live.name, "beside": built.name, "topic": live.contract.topic}
