"""New ids if a registry answers for some ids and not for others, or if one of its addresses lags."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest

from platform_defs.errors import RegistryAway, SchemasNotGiven
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.schema_ledger import SchemaInUse, SchemaLedger, schema_digest
from platform_defs.registry import comparison, lookup
from platform_defs.registry.client import RegistryClient
from platform_defs.registry.comparison import Comparison
from platform_defs.registry.lookup import Lookup
from platform_defs.registry.policy import ACCEPT, ACCEPT_REPLAY, REPLAY, RUN
from platform_defs.registry.schemas import RegistrySchemas
from platform_defs.settings.registry_address import Pace, Registry
from tests.unit.registry.registry_double import ONCE, Answer, Answered, after, hangs, refuses, registry_double, says

pytestmark = pytest.mark.long


GUID = "89791762-2336-4186-9674-299b90a802e2"
SCHEMA, OTHER = says({"schema": '"string"'}), says({"schema": '"bytes"'})
PAGE = says(b"<html>", 404, kind="text/html")


@pytest.fixture
def server() -> Iterator[Answered]:
    for remembered in (lookup._away, comparison._silent, comparison._compared):
        remembered.clear()
    with registry_double() as answered:
        yield answered


@pytest.fixture
def other() -> Iterator[Answered]:
    with registry_double() as answered:
        yield answered


def asking(server: Answered, *, accepts: bool = False) -> Lookup:
    address = Registry({"url": server.url}, patience_for(server), ONCE)
    return Lookup(address, "", "p", ACCEPT if accepts else RUN, (), most_seconds=60)


def patience_for(server: Answered) -> float:
    """Return seconds: few if a server hangs, otherwise as many as a busy machine needs to answer."""
    return 0.4 if hangs in (*server.answers.values(), server.otherwise) else 10.0


def agrees(server: Answered, pace: Pace = ONCE, patience: float = 0.0, count: int = 20) -> bool | None:
    """Return True if ids from 1 on, all of one schema, mean the same to registry and ledger; None if unknown."""
    address, ledger = Registry({"url": server.url}, patience or patience_for(server), pace), SchemaLedger("", "default")
    in_use = [SchemaInUse(str(n), schema_digest(WriterSchema("", "avro", '"string"'))) for n in range(1, count + 1)]
    return Comparison(ledger, 1, address, "", tuple(in_use)).agrees(RegistryClient(address))


@pytest.mark.slow
@pytest.mark.parametrize("answer", [refuses(401), PAGE, refuses(502), refuses(504), hangs])
def test_what_a_registry_that_is_there_says_of_one_id_is_of_that_id(server: Answered, answer: Answer) -> None:
    server.answers = {"/schemas/ids/5": SCHEMA, "/schemas/ids/6": answer}
    with pytest.raises(SchemasNotGiven, match=r"answer for schema 6: .*tidegate resolve p --batch dead-letters"):
        asking(server).ask(["5", "6"])
    assert asking(server, accepts=True).ask(["5", "6"]) == {"5": WriterSchema("5", "avro", '"string"')}


@pytest.mark.parametrize("accepts", [False, True])
@pytest.mark.parametrize("status", [408, 425, 429, 503])
def test_a_server_that_is_busy_says_nothing_of_an_id(server: Answered, status: int, accepts: bool) -> None:
    server.answers = {"/schemas/ids/5": SCHEMA, "/schemas/ids/6": refuses(status)}
    with pytest.raises(RegistryAway):
        asking(server, accepts=accepts).ask(["5", "6"])
    server.answers["/schemas/ids/6"] = refuses(500)
    server.answers["/schemas/ids/7"] = after(0.1, refuses(status))
    with pytest.raises(RegistryAway):
        asking(server, accepts=True).ask(["5", "6", "7"])


def test_what_follows_for_an_id_without_a_schema_depends_on_who_asks(
    server: Answered, subtests: pytest.Subtests
) -> None:
    followed: Mapping[str, tuple[Answer, Sequence[type[Exception] | None]]] = {
        "missing": (refuses(404, 40403), (None, None, None, None)),
        "refused": (refuses(403, 40301), (SchemasNotGiven, None, None, None)),
        "silent": (refuses(502), (SchemasNotGiven, None, RegistryAway, None)),
        "busy": (refuses(503), (RegistryAway, RegistryAway, RegistryAway, RegistryAway)),
    }
    for message, (answer, errors) in followed.items():
        server.answers = {"/schemas/ids/5": SCHEMA, "/schemas/ids/6": answer}
        for policy, error in zip((RUN, ACCEPT, REPLAY, ACCEPT_REPLAY), errors, strict=True):
            with subtests.test(said=message, policy=policy), pytest.raises(error) if error else nullcontext():
                found = replace(asking(server), policy=policy).ask(["5", "6"])
                assert found == {"5": WriterSchema("5", "avro", '"string"')}
    for policy, error in ((RUN, RegistryAway), (ACCEPT, RegistryAway), (REPLAY, None), (ACCEPT_REPLAY, None)):
        with subtests.test(said="no registry", policy=policy), pytest.raises(error) if error else nullcontext():
            assert replace(asking(server), policy=policy, address=None).ask(["5"]) == {}


@pytest.mark.parametrize("accepts", [False, True])
@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_that_answers_for_no_new_id_is_away(server: Answered, status: int, accepts: bool) -> None:
    server.answers = {f"/schemas/ids/{n}": refuses(status) for n in (6, 7)}  # not for the id that no schema has
    with pytest.raises(RegistryAway):
        asking(server, accepts=accepts).ask(["6", "7"])


def test_an_id_that_a_gateway_refuses_alone_is_asked_for_again_alone(server: Answered) -> None:
    server.answers = {"/schemas/ids/5": SCHEMA, "/schemas/ids/6": refuses(504)}
    lagging = replace(asking(server, accepts=True), pauses=(0.0,))
    assert lagging.ask(["5", "6"]) == {"5": WriterSchema("5", "avro", '"string"')}


@pytest.mark.parametrize("accepts", [False, True])
@pytest.mark.parametrize("answer", [refuses(401), PAGE, refuses(503), hangs])
def test_what_a_registry_says_of_every_id_is_of_the_registry(server: Answered, answer: Answer, accepts: bool) -> None:
    server.otherwise = answer
    with pytest.raises(RegistryAway):
        asking(server, accepts=accepts).ask(["5", "6"])


def known(server: Answered, answer: Answer, count: int = 20) -> None:
    server.answers = {f"/schemas/ids/{n}": answer for n in range(1, count + 1)}


def test_a_slow_registry_is_compared_to_the_end(server: Answered) -> None:
    hasty = replace(ONCE, quickly=0.05)
    known(server, after(0.1, SCHEMA))
    server.answers["/schemas/ids/20"] = after(0.1, OTHER)
    assert agrees(server, hasty) is False
    known(server, after(0.1, SCHEMA))
    assert agrees(server, hasty) is True


@pytest.mark.parametrize("answer", [refuses(504), refuses(401), hangs])
def test_one_id_in_use_without_an_answer_holds_back_no_new_one(server: Answered, answer: Answer) -> None:
    known(server, SCHEMA)
    server.answers["/schemas/ids/7"] = answer
    assert agrees(server) is True
    server.answers["/schemas/ids/8"] = OTHER
    assert agrees(server, patience=1) is False  # on a busy machine 20 answers take longer than half a second


def test_a_registry_that_gives_none_of_those_in_use_is_not_believed(server: Answered) -> None:
    known(server, refuses(504), 2)
    assert agrees(server, count=2) is None
    known(server, refuses(403, 40301), 2)
    assert agrees(server, count=2) is None
    server.answers.clear()
    assert agrees(server, count=2) is None, "another registry, or an emptied one"
    server.answers["/schemas/ids/2"] = SCHEMA
    assert agrees(server, count=2) is True, "one that is gone may come back"
    server.answers["/schemas/ids/1"] = refuses(403, 40301)
    assert agrees(server, count=2) is True, "a schema of another pipeline"


def test_a_new_id_of_a_registry_that_has_none_of_those_in_use_halts_with_a_way_out(server: Answered) -> None:
    gone = (SchemaInUse("1", "0" * 64), SchemaInUse("2", "1" * 64))
    ledger, address = SchemaLedger("", "default"), Registry({"url": server.url}, patience=0.5)
    one = RegistrySchemas(ledger, (), "now", Lookup(address, "", "p", RUN, (), most_seconds=60), gone)
    with pytest.raises(
        SchemasNotGiven, match=r"different registry, or one that was emptied.* tidegate schema fetch p\b"
    ):
        one._is_believed()
    assert not one.accepting()._is_believed()


def test_an_id_that_one_address_does_not_have_is_asked_for_at_the_next(server: Answered, other: Answered) -> None:
    server.answers = {
        "/schemas/ids/8": says({"schema": "x", "references": [{"name": "a", "subject": "a", "version": 1}]})
    }
    other.answers = {"/schemas/ids/7": SCHEMA, "/subjects/a/versions/1": SCHEMA}
    client = RegistryClient(Registry({"url": f"{server.url},{other.url}"}, 2))
    assert client.schema("7") == WriterSchema("7", "avro", '"string"')
    assert client.schema("8") == WriterSchema("8", "avro", "x", (("a", '"string"'),))
    assert client.schema("9") is None
    assert (server.asked.count("/schemas/ids/9"), other.asked.count("/schemas/ids/9")) == (1, 1)


def test_a_guid_is_asked_for_where_an_address_knows_guids(server: Answered, other: Answered) -> None:
    server.answers = {f"/schemas/guids/{GUID}": refuses(404), "/schemas/types": says(["AVRO"])}
    other.answers = {f"/schemas/guids/{GUID}": SCHEMA}
    found = RegistryClient(Registry({"url": f"{server.url},{other.url}"}, 2)).schema(GUID)
    assert found == WriterSchema(GUID, "avro", '"string"')


def test_an_address_that_is_silent_is_waited_for_once_where_another_knows_no_such_id(
    server: Answered, other: Answered
) -> None:
    other.otherwise = hangs
    client = RegistryClient(Registry({"url": f"{server.url},{other.url}"}, 10, replace(ONCE, again=0.2)))
    assert [client.schema(str(n)) for n in range(1, 6)] == [None] * 5
    assert (len(server.asked), len(other.asked)) == (5, 1)
