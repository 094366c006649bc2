"""The ledger's schema: created when a run opens and by `tidegate migrate`, never by a command that only reads it."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from dagster import DagsterInstance

from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BadInput, Fenced, LedgerAway, LedgerMissing, LedgerOutdated, LedgerTooNew
from platform_defs.errors.halts import AccumulateRefused, BlockingCheckFailed
from platform_defs.ledger import migrations
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.migrations import KNOWN, LedgerVersion
from platform_defs.pipelines.scheduler.survey import Survey
from platform_defs.pipelines.sensors import look
from platform_defs.resolve.settlement import Settlement, settle
from platform_defs.settings.contracts import find_pipeline
from platform_defs.stack.endpoints import Endpoints
from tests.support.commands import invoke
from tests.support.postgres.databases import new_database
from tests.support.world import World

REPLAYS = "004_replays.sql"
UNDO_REPLAYS = (
    "ALTER TABLE tidegate.source_position DROP added_late",
    "ALTER TABLE tidegate.batch DROP replaced_by",
    "DROP TABLE tidegate.replay",
)


@pytest.fixture
def url(endpoints: Endpoints) -> Iterator[str]:
    """Yield the URL of a database for this test, without a ledger."""
    with new_database(endpoints.postgres_url) as made:
        yield made


@pytest.fixture
def stranger(url: str) -> Iterator[str]:
    """Yield the URL of a user of that database who may create nothing in it."""
    role = f"stranger_{uuid4().hex[:10]}"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'".encode())
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        yield parts._replace(netloc=f"{role}:secret@{place}").geturl()
        session.execute(f"DROP OWNED BY {role}".encode())
        session.execute(f"DROP ROLE {role}".encode())


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        for statement in statements:
            session.execute(statement.encode())


def test_what_only_reads_answers_that_nothing_is_there_yet_and_creates_nothing(url: str) -> None:
    ledger = Ledger(url)
    assert ledger.version() is None
    assert not ledger.status("bank_transfers").has_run
    assert ledger.positions("bank_transfers") == []
    with psycopg.connect(url) as session:
        assert session.execute("SELECT to_regnamespace('tidegate')").fetchone() == (None,)


def test_lag_on_a_fresh_database_shows_every_pipeline_unread(
    url: str, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", url)
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", endpoints.bootstrap_servers)
    found = invoke("lag", "-o", "json", code=0).document["pipelines"]
    assert len(found) > 1
    assert {item["state"] for item in found} == {"active"}
    assert {part["position"] for item in found for part in item["partitions"]} <= {None}


def test_what_writes_says_that_there_is_no_ledger_and_how_to_get_one(url: str) -> None:
    with pytest.raises(LedgerMissing, match="tidegate migrate"):
        Ledger(url).mark_reported(1)


def test_of_processes_that_migrate_at_once_one_does_and_all_go_on(url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: Ledger(url).migrate(), range(4)))
    assert sorted(done) == [(), (), (), KNOWN]
    assert Ledger(url).version() == LedgerVersion(KNOWN)


def test_a_ledger_that_is_up_to_date_needs_no_right_to_create(url: str, stranger: str) -> None:
    Ledger(url).migrate()
    role = urlsplit(stranger).username
    execute(
        url, f"GRANT USAGE ON SCHEMA tidegate TO {role}", f"GRANT SELECT ON ALL TABLES IN SCHEMA tidegate TO {role}"
    )
    assert Ledger(stranger).migrate() == ()
    assert not Ledger(stranger).status("bank_transfers").has_run


def test_a_ledger_that_is_up_to_date_is_opened_while_another_process_holds_the_lock_of_migrations(url: str) -> None:
    Ledger(url).migrate()
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext('tidegate migrations'))")
        assert Ledger(url).migrate() == ()
        assert not Ledger(url).status("bank_transfers").has_run


def test_who_may_not_create_the_ledger_is_told_what_to_grant(stranger: str) -> None:
    with pytest.raises(BadInput, match="GRANT CREATE, TEMPORARY ON DATABASE"):
        Ledger(stranger).migrate()


def test_who_may_not_use_or_upgrade_the_ledger_is_told_whose_it_is(url: str, stranger: str) -> None:
    Ledger(url).migrate()
    for ask in (lambda: Ledger(stranger).migrate(), lambda: Ledger(stranger).status("bank_transfers")):
        with pytest.raises(BadInput, match="which belongs to"):
            ask()


def test_an_older_ledger_is_upgraded_by_a_migration_and_until_then_not_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _migrated_to(url, KNOWN[:2], monkeypatch)
    with pytest.raises(LedgerOutdated, match=f"missing: {', '.join(KNOWN[2:])}.*tidegate migrate"):
        Ledger(url).status("bank_transfers")
    assert Ledger(url).migrate() == KNOWN[2:]
    assert not Ledger(url).status("bank_transfers").has_run


def test_which_tables_an_older_ledger_has_left_out_is_known_from_its_lineage(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renamed table keeps its first name; the event has the name at its time."""
    _migrated_to(url, _before("005"), monkeypatch)
    new = "(batch_id, pipeline, epoch, owner, messages, rows, dead_letters, unknown_fields, contract_version, timings)"
    execute(
        url,
        "CREATE TABLE public.renamed ()",
        "INSERT INTO tidegate.pipeline (name) VALUES ('p'), ('q~replay')",
        f"INSERT INTO tidegate.batch {new} SELECT n, CASE n WHEN 3 THEN 'q~replay' ELSE 'p' END, 1, gen_random_uuid(),"
        " 0, 0, 0, 0, '', '{}' FROM generate_series(1, 3) AS n",
        "INSERT INTO tidegate.lineage_event (batch_id, event) VALUES"
        """ (1, '{"outputs": [{"name": "s.rows"}, {"name": "s.sums"}, {"name": "public.renamed"}]}'),"""
        """ (2, '{"outputs": [{"name": "s.rows"}, {"name": "public.renamed"}]}'), (3, '{"outputs": []}')""",
        "INSERT INTO tidegate.output VALUES (1, 's.rows', 'p', 'append'), (2, 's.sums', 'p', 'accumulate'),"
        " ('public.renamed'::regclass, 's.first', 'p', 'accumulate'), (3, 's__replay.x', 'q~replay', 'append')",
    )
    Ledger(url).migrate()
    with psycopg.connect(url) as session:
        found = session.execute("SELECT table_name, batch_id FROM tidegate.output").fetchall()
    assert dict(found) == {"s.rows": 2, "s.sums": None, "s.first": 2, "s__replay.x": 3}


def test_the_application_of_older_batches_is_known_where_each_contract_came_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of p name one contract after the other; those of `again` also name the first one again. In `late`, and in
    `there` whose table has the column, what the first contract dropped when it came again is on its first application.
    """
    _migrated_to(url, _before("021"), monkeypatch)
    new = "(batch_id, pipeline, epoch, owner, messages, rows, dead_letters, unknown_fields, contract_version, timings"
    values = "1, gen_random_uuid(), 0, 0, 0, 0, '', '{}'"
    kept = "(pipeline, digest, version, document, schema_text, applied_by, by_command, dropped, applied_at)"
    batches = (("p", [None, "r1", "r2", "r2"]), ("again", ["r1", "r2", "r1", "r3"]))
    execute(
        url,
        "CREATE TABLE public.late (a text)",
        "CREATE TABLE public.there (a text, x text)",
        "INSERT INTO tidegate.pipeline (name, contract_digest)"
        " VALUES ('p', 'r2'), ('again', 'r3'), ('late', 'r1'), ('there', 'r1')",
        *(
            f"INSERT INTO tidegate.output (table_oid, table_name, pipeline, disposition)"
            f" VALUES ('public.{name}'::regclass, 'public.{name}', '{name}', 'append')"
            for name in ("late", "there")
        ),
        *(
            f"INSERT INTO tidegate.contract {kept} SELECT name, 'r{n}', '{n}', 'of r{n}', '', 'a', true,"
            f" CASE WHEN name IN ('late', 'there') AND {n} = 1 THEN '{{x}}' ELSE '{{}}' END::text[],"
            f" now() + interval '{n} s' FROM tidegate.pipeline WHERE name = 'again' OR {n} < 3"
            for n in (1, 2, 3)
        ),
        *(
            f"INSERT INTO tidegate.batch {new}, contract_digest) VALUES ({first + n}, '{name}', {values},"
            f" {repr(digest) if digest else 'NULL'})"
            for first, (name, digests) in zip((1, 11), batches, strict=True)
            for n, digest in enumerate(digests)
        ),
    )
    Ledger(url).migrate()
    asked = (
        "SELECT c.pipeline, c.digest, c.unnumbered = (SELECT min(number) FROM tidegate.contract_application AS a"
        " WHERE (a.pipeline, a.digest) = (c.pipeline, c.digest)) FROM tidegate.contract AS c WHERE pipeline <> 'late'"
    )
    log = "SELECT digest, dropped FROM tidegate.contract_application WHERE pipeline = %s ORDER BY number"
    with psycopg.connect(url) as session:
        known = {(pipeline, digest): found for pipeline, digest, found in session.execute(asked)}
        dropped = {name: session.execute(log, [name]).fetchall() for name in ("late", "there")}
        documents = session.execute("SELECT digest, document FROM tidegate.contract_application").fetchall()
    assert {document == f"of {digest}" for digest, document in documents} == {True}
    assert known == {
        **{("p", digest): True for digest in ("r1", "r2")},
        **{("again", digest): None for digest in ("r1", "r2", "r3")},
        **{("there", digest): None for digest in ("r1", "r2")},
    }
    assert dropped == {
        "late": [("r1", ["x"]), ("r2", []), ("r1", ["x"])],
        "there": [("r1", ["x"]), ("r2", []), ("r1", [])],
    }


def test_halts_of_an_older_version_get_new_names(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _migrated_to(url, _before("029"), monkeypatch)
    checks = '{"batch_id": 1, "messages": 2, "rows": 2, "checks": [], "tries": 8}'
    execute(
        url,
        "INSERT INTO tidegate.pipeline (name, state, halt_code, halt_detail, red_gate)"
        f" VALUES ('bank_transfers', 'halted', 'gate_red', '{checks}', '{checks}')",
        "INSERT INTO tidegate.settlement (pipeline, halt_code, halt_detail, actions, epoch, reason, settled_by)"
        f" VALUES ('bank_transfers', 'gate_red', '{checks}', '{{}}', 1, '', '')",
    )
    Ledger(url).migrate()
    status = Ledger(url).status("bank_transfers")
    assert status.halt is not None
    assert status.halt.detail == BlockingCheckFailed(batch_id=1, messages=2, rows=2, tries=8)
    assert status.failed_checks == json.loads(checks)
    with psycopg.connect(url) as session:
        assert session.execute("SELECT halt_code FROM tidegate.settlement").fetchone() == ("blocking_check_failed",)


def test_a_ledger_of_a_later_version_is_neither_read_nor_migrated(url: str) -> None:
    Ledger(url).migrate()
    execute(url, "INSERT INTO tidegate.migration (name) VALUES ('999_later.sql')")
    for ask in (lambda: Ledger(url).status("bank_transfers"), lambda: Ledger(url).migrate()):
        with pytest.raises(LedgerTooNew, match=r"has 999_later\.sql.*Upgrade Tidegate"):
            ask()


def test_a_ledger_that_lists_its_migrations_in_public_is_taken_over(url: str) -> None:
    Ledger(url).migrate()
    execute(
        url,
        "ALTER TABLE tidegate.migration RENAME TO tidegate_migration",
        "ALTER TABLE tidegate.tidegate_migration SET SCHEMA public",
    )
    with pytest.raises(LedgerOutdated):
        Ledger(url).status("bank_transfers")
    assert Ledger(url).migrate() == ()
    assert Ledger(url).version() == LedgerVersion(KNOWN)


def test_a_migration_behind_a_long_reader_holds_up_no_publication(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _migrated_to(url, KNOWN[:3], monkeypatch)
    with psycopg.connect(url) as reader, psycopg.connect(url, autocommit=True) as publisher:
        reader.execute("SELECT count(*) FROM tidegate.batch")  # and its transaction stays open
        with _waiting(url, reader, "tidegate.batch") as migrated:
            publisher.execute("SET lock_timeout = '10s'")
            with publisher.transaction():
                publisher.execute("LOCK TABLE tidegate.batch IN ROW EXCLUSIVE MODE")
            assert not migrated.done()
    assert migrated.result() == KNOWN[3:]


@pytest.mark.parametrize("first", ["010", "026"])
def test_a_migration_asks_for_no_lock_on_top_of_one_that_holds_a_publication_up(
    url: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publication has locked its pipeline's row, and writes its batch later: neither may wait for the other."""
    _migrated_to(url, _before(first), monkeypatch)
    with psycopg.connect(url) as publication:
        publication.execute("SELECT name FROM tidegate.pipeline FOR UPDATE")
        with _waiting(url, publication, "tidegate.pipeline") as migrated:
            publication.execute("SET lock_timeout = '500ms'")  # less than the migration waits
            publication.execute("LOCK TABLE tidegate.batch IN ROW EXCLUSIVE MODE")
            publication.execute("UPDATE tidegate.pipeline SET updated_at = now()")
            publication.commit()
    assert migrated.result() == tuple(name for name in KNOWN if name >= first)


@contextmanager
def _waiting(url: str, holder: psycopg.Connection, table: str) -> Iterator[Future[tuple[str, ...]]]:
    """Yield a migration in another thread, once it waits for a lock on the table. `holder` has it until the end."""
    waits = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass"
    with psycopg.connect(url, autocommit=True) as asking, ThreadPoolExecutor(1) as pool:
        migrated = pool.submit(Ledger(url).migrate)
        try:
            while asking.execute(waits.encode()).fetchone() == (0,):
                assert not migrated.done()
            yield migrated
        finally:
            holder.rollback()


def test_a_migration_that_never_gets_its_locks_says_so_and_changes_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _migrated_to(url, KNOWN[:3], monkeypatch)
    monkeypatch.setattr(migrations, "PATIENCE", 0.1)
    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM tidegate.batch")
        with pytest.raises(LedgerAway, match="pg_locks shows which"):
            Ledger(url).migrate()
    assert Ledger(url).version() == LedgerVersion(KNOWN[:3])


def test_runs_of_the_version_before_publish_nothing_after_a_migration(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger(url).migrate()
    with closing(acquire(url, find_pipeline("web_page_views").contract)) as held:
        held.add_positions([], [])
        (tmp_path / "999_next.sql").write_text("SELECT 'whatever the next version adds'")
        monkeypatch.setattr(migrations, "MIGRATIONS", tmp_path)
        monkeypatch.setattr(migrations, "KNOWN", (*KNOWN, "999_next.sql"))
        assert Ledger(url).migrate() == ("999_next.sql",)
        with pytest.raises(Fenced):
            held.add_positions([], [])


def test_a_ledger_of_a_later_version_is_neither_taken_over_nor_settled(url: str) -> None:
    contract = find_pipeline("web_page_views").contract
    Ledger(url).migrate()
    acquire(url, contract).close()
    execute(url, "INSERT INTO tidegate.migration (name) VALUES ('999_later.sql')")
    decided = Settlement("", pipeline=contract.pipeline, detail=AccumulateRefused(), epoch=1)
    for change in (lambda: acquire(url, contract), lambda: settle(url, contract, decided, "a test", "tester")):
        with pytest.raises(LedgerTooNew):
            change()
    with psycopg.connect(url) as session:
        assert session.execute("SELECT epoch FROM tidegate.pipeline").fetchone() == (1,)


def _before(first: str) -> Sequence[str]:
    """Return the migrations before the one whose number is `first`."""
    return tuple(name for name in KNOWN if name < first)


def _migrated_to(url: str, known: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "KNOWN", tuple(known))
        Ledger(url).migrate()


@pytest.mark.slow
def test_a_sensor_upgrades_an_older_ledger_and_starts_runs_as_before(
    url: str, endpoints: Endpoints, world: World
) -> None:
    pipeline = world.new_pipeline(lag_messages=1)
    world.send(pipeline, [b"{}"])
    Ledger(url).migrate()
    execute(url, f"DELETE FROM tidegate.migration WHERE name = '{REPLAYS}'", *UNDO_REPLAYS)
    found = look(
        DagsterInstance.ephemeral(), [pipeline.contract], Survey(replace(endpoints, postgres_url=url)), None, ""
    )
    assert found.run_requests
    assert Ledger(url).version() == LedgerVersion(KNOWN)


def test_a_sensor_fails_visibly_on_a_newer_ledger(url: str, endpoints: Endpoints, world: World) -> None:
    pipeline = world.new_pipeline()
    Ledger(url).migrate()
    execute(url, "INSERT INTO tidegate.migration (name) VALUES ('999_later.sql')")
    with pytest.raises(LedgerTooNew):
        look(DagsterInstance.ephemeral(), [pipeline.contract], Survey(replace(endpoints, postgres_url=url)), None, "")


def test_a_topic_that_was_renamed_before_pipelines_were_bound_to_theirs_is_recorded(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions read the new topic and left the positions of the old one behind."""
    _migrated_to(url, _before("006"), monkeypatch)
    batch = "INSERT INTO tidegate.batch SELECT {}, 'p', 1, gen_random_uuid(), NULL, 5, 5, 0, 0, '1', '{{}}'"
    ranges = "INSERT INTO tidegate.batch_range SELECT {}, '{}', '{} id', 0, 0, 5, 5, '{{}}', 0"
    at = "INSERT INTO tidegate.source_position SELECT 'p', '{0}', {1}, 'c', '{0} id', 0, {2}, 0, NULL, {3}"
    execute(
        url,
        "INSERT INTO tidegate.pipeline (name, epoch) VALUES ('p', 7)",
        *(batch.format(number) for number in (1, 2)),
        *(ranges.format(number, topic, topic) for number, topic in ((1, "old"), (2, "new"))),
        *(at.format(*row) for row in (("old", 0, 5, 1), ("old", 1, 0, "NULL"), ("new", 0, 5, 2))),
    )
    assert Ledger(url).migrate() == tuple(name for name in KNOWN if name >= "006")
    (position,) = Ledger(url).positions("p")
    assert (position.topic, position.topic_id, position.next_offset) == ("new", "new id", 5)
    with psycopg.connect(url) as session:
        lost = session.execute("SELECT partition, from_offset, until_offset, until_batch FROM tidegate.lost_history")
        assert lost.fetchall() == [(0, 0, 5, 1)]
        kept = session.execute(
            "SELECT pipeline, halt_code, halt_detail ->> 'was', epoch, settled_by FROM tidegate.settlement"
        )
        assert kept.fetchall() == [("p", "topic_changed", "old", 7, "tidegate migrate")]
        with pytest.raises(psycopg.errors.UniqueViolation):
            session.execute(at.format("another", 0, 9, 2).encode())
