"""Whatever a registry answers: a schema, no schema, or RegistryAway in time, without a password in it."""

import gzip
import json
import pickle
import threading
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from threading import Barrier

import pytest

from platform_defs.errors import BadInput, RegistryAway
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.registry.client import AT_ONCE, RegistryClient, client_of
from platform_defs.registry.policy import COMPARE, REPLAY, RUN
from platform_defs.registry.server import LARGEST_ANSWER
from platform_defs.settings.registry_address import Pace, Registry
from tests.support.waiting import within
from tests.unit.registry.registry_double import (
    ONCE,
    Answer,
    Answered,
    after,
    drips,
    floods,
    half,
    hangs,
    refuses,
    registry_double,
    says,
)

pytestmark = pytest.mark.long


GUID = "89791762-2336-4186-9674-299b90a802e2"
SCHEMA = says({"schema": '"string"'})


@pytest.fixture
def server() -> Iterator[Answered]:
    with registry_double() as answered:
        yield answered


def client(
    *urls: str, patience: float = 10.0, pace: Pace = ONCE, options: Mapping[str, str] | None = None
) -> RegistryClient:
    given = {name.replace("_", "."): value for name, value in (options or {}).items()}
    return RegistryClient(Registry({"url": ",".join(urls), **given}, patience, pace))


def test_an_id_and_a_guid_are_asked_for(server: Answered) -> None:
    server.answers = {"/schemas/ids/7": SCHEMA, f"/schemas/guids/{GUID}": says({"schema": "{}", "schemaType": "JSON"})}
    assert client(server.url).schema("7") == WriterSchema("7", "avro", '"string"')
    assert client(server.url).schema(GUID) == WriterSchema(GUID, "json", "{}")


def test_what_a_schema_refers_to_comes_before_what_needs_it(server: Answered) -> None:
    def refers(document: str, *names: str) -> Answer:
        references = [{"name": name, "subject": f"of.{name}", "version": 1} for name in names]
        return says({"schema": document, "references": references, "subject": "s", "version": 1, "id": 1})

    server.answers = {
        "/schemas/ids/7": refers("top", "a", "b"),
        "/subjects/of.a/versions/1": refers("A", "b"),
        "/subjects/of.b/versions/1": refers("B", "a"),  # a ring
    }
    assert client(server.url).schema("7") == WriterSchema("7", "avro", "top", (("b", "B"), ("a", "A")))


def test_a_schema_that_refers_to_nothing_there_is_is_none(server: Answered) -> None:
    missing = {"name": "a", "subject": "gone", "version": 3}
    server.answers = {"/schemas/ids/7": says({"schema": "x", "references": [missing]})}
    assert client(server.url).schema("7") is None
    assert server.asked[-1].startswith("/subjects/gone/versions/3")


@pytest.mark.parametrize("version", [None, "one", {}])
def test_a_reference_that_does_not_say_its_version_is_missing(server: Answered, version: object) -> None:
    odd = {"name": "a", "subject": "s"} | ({} if version is None else {"version": version})
    server.answers = {"/schemas/ids/7": says({"schema": "x", "references": [odd]})}
    assert client(server.url).schema("7") is None


def test_a_rule_of_an_unknown_kind_does_not_matter(server: Answered) -> None:
    rule = {"name": "r", "kind": "DREAM", "mode": "SIDEWAYS", "type": "CEL"}
    ruled = says({"schema": "x", "ruleSet": {"domainRules": [rule], "dreamRules": [rule]}, "metadata": {"new": [1]}})
    server.answers = {"/schemas/ids/7": ruled}
    assert client(server.url).schema("7") == WriterSchema("7", "avro", "x")


def test_one_that_is_refused_hides_no_other(server: Answered) -> None:
    server.answers = {"/schemas/ids/7": SCHEMA, "/schemas/ids/8": refuses(500), "/schemas/ids/9": hangs}
    assert client(server.url, patience=0.5).lookup(["7", "8", "9", "10"], COMPARE) == {
        "7": WriterSchema("7", "avro", '"string"'),
        "10": None,
    }


def test_whether_a_subject_has_versions(server: Answered) -> None:
    server.answers = {"/subjects/%3A.x%3Aa%2Fb/versions": says([1]), "/subjects/none/versions": says([])}
    server.answers["/subjects/gone/versions"] = refuses(404, 40401)
    found = {name: client(server.url).has_versions(name) for name in (":.x:a/b", "none", "gone")}
    assert found == {":.x:a/b": True, "none": False, "gone": False}


@pytest.mark.parametrize("document", ["a\0b", "\ud800"])
def test_a_schema_that_no_ledger_can_hold_is_none(server: Answered, document: str) -> None:
    server.answers = {"/schemas/ids/7": says({"schema": document})}
    assert client(server.url).schema("7") is None


@pytest.mark.parametrize("kind", ["ENCRYPT", "ENCRYPT_PAYLOAD"])
def test_a_schema_whose_fields_are_encrypted_says_so(server: Answered, kind: str) -> None:
    def ruled(disabled: bool) -> Answer:
        rule = {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": kind, "disabled": disabled}
        return says({"schema": "x", "ruleSet": {"domainRules": [rule]}})

    server.answers = {"/schemas/ids/7": ruled(False), "/schemas/ids/8": ruled(True)}
    encrypted, plain = client(server.url).schema("7"), client(server.url).schema("8")
    assert encrypted is not None
    assert plain is not None
    assert (encrypted.encrypted, plain.encrypted) == (True, False)


def test_no_such_schema_is_the_registrys_own_word_and_no_other_404(server: Answered) -> None:
    assert client(server.url).schema("7") is None
    for other in (refuses(404), refuses(404, 0), says(b"<html>Not Found</html>", 404, kind="text/html")):
        server.answers = {"/schemas/ids/7": other}
        with pytest.raises(RegistryAway):
            client(server.url).schema("7")


def test_a_registry_that_reports_a_missing_schema_as_a_bad_request_has_none(server: Answered) -> None:
    server.answers = {"/schemas/ids/7": refuses(400, 40403), "/subjects/s/versions": refuses(400, 40401)}
    assert client(server.url).schema("7") is None
    assert not client(server.url).has_versions("s")


def test_an_id_that_no_registry_gives_is_not_asked_for(server: Answered) -> None:
    server.answers = {f"/schemas/ids/{2**31}": refuses(404)}  # Confluent's own answer
    assert client(server.url).schema(str(2**31)) is None
    assert client(server.url).schema(str(2**31 - 1)) is None
    assert server.asked == [f"/schemas/ids/{2**31 - 1}"]


@pytest.mark.parametrize("code", [0, 404])
def test_a_registry_that_has_no_guids_knows_none(server: Answered, code: int) -> None:
    types = says(["JSON", "PROTOBUF", "AVRO"])
    server.answers = {f"/schemas/guids/{GUID}": refuses(404, code), "/schemas/types": types}
    assert client(server.url).schema(GUID) is None


@pytest.mark.parametrize("types", [refuses(404), says({}), says(["JSON"]), says(b"<html>", kind="text/html")])
def test_a_404_of_a_gateway_says_nothing_about_a_guid(server: Answered, types: Answer) -> None:
    server.answers = {f"/schemas/guids/{GUID}": refuses(404), "/schemas/types": types}
    with pytest.raises(RegistryAway):
        client(server.url).schema(GUID)


def test_references_are_of_the_context_of_what_refers_to_them(server: Answered) -> None:
    def refers(document: str, *subjects: str) -> Answer:
        references = [{"name": subject, "subject": subject, "version": 1} for subject in subjects]
        return says({"schema": document, "references": references, "subject": "s", "version": 1, "id": 1})

    server.answers = {
        "/schemas/ids/7": refers("top", "a", ":.:b", ":.other:c"),
        "/subjects/%3A.bank%3Aa/versions/1": refers("A"),
        "/subjects/%3A.%3Ab/versions/1": refers("B", "d"),
        "/subjects/%3A.%3Ad/versions/1": refers("D"),
        "/subjects/%3A.other%3Ac/versions/1": refers("C"),
    }
    found = client(server.url).schema("7", ":.bank:transfers")
    assert found is not None
    assert [document for _, document in found.references] == ["A", "D", "B", "C"]


def test_many_are_asked_for_at_once(server: Answered) -> None:
    together = Barrier(AT_ONCE, timeout=5)  # no request is answered before AT_ONCE have come

    def answer(handler: BaseHTTPRequestHandler, answered: Answered) -> None:
        together.wait()
        says({"schema": json.dumps("string")})(handler, answered)

    keys = [str(n) for n in range(1, 5 * AT_ONCE + 1)]
    server.answers = {f"/schemas/ids/{key}": answer for key in keys}
    found = client(server.url, patience=30).lookup(keys, RUN)
    assert [key for key, schema in found.items() if schema] == keys


def test_what_is_refused_for_a_while_is_not_given_and_what_comes_late_is(server: Answered) -> None:
    server.answers = {"/schemas/ids/7": refuses(403, 40301), "/schemas/ids/9": after(0.4, SCHEMA)}
    given = client(server.url, pace=Pace(pause=0.05, refused=0.3)).lookup(["7", "9"], REPLAY)
    assert (given["7"], given["9"]) == (None, WriterSchema("9", "avro", '"string"'))
    assert server.asked.count("/schemas/ids/7") > 1


@pytest.mark.parametrize("status", [401, 404, 408, 429, 503])
def test_what_a_server_says_of_itself_is_no_refusal_of_one_schema(server: Answered, status: int) -> None:
    server.answers = {"/schemas/ids/7": refuses(status, status)}
    with pytest.raises(RegistryAway) as away:
        client(server.url).lookup(["7"], REPLAY)
    assert not away.value.refused


def test_a_schema_may_be_large_and_an_answer_not_larger(server: Answered) -> None:
    document = json.dumps({"type": "enum", "name": "E", "symbols": [f"S{n:06}" for n in range(100_000)]})
    assert len(document) > 1_000_000
    server.answers = {
        "/schemas/ids/7": says({"schema": document}),
        "/schemas/ids/8": says({"schema": "x" * (LARGEST_ANSWER + 1)}),
    }
    assert client(server.url).schema("7") == WriterSchema("7", "avro", document)
    with pytest.raises(RegistryAway, match="longer than 16,000,000 bytes"):
        client(server.url).schema("8")


@pytest.mark.parametrize(("encoding", "encoded"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_the_size_of_a_compressed_answer_is_that_of_its_content(
    server: Answered, encoding: str, encoded: Callable[[bytes], bytes]
) -> None:
    def packed(document: str) -> Answer:
        return says(encoded(json.dumps({"schema": document}).encode()), headers={"Content-Encoding": encoding})

    server.answers = {"/schemas/ids/7": packed("x"), "/schemas/ids/8": packed("x" * 64_000_000)}
    assert client(server.url).schema("7") == WriterSchema("7", "avro", "x")
    with pytest.raises(RegistryAway, match="longer than 16,000,000 bytes"):
        client(server.url).schema("8")


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [("zstd", b"\x28\xb5\x2f\xfd", "encoded as zstd"), ("gzip", b"not gzip", "incorrect header")],
)
def test_an_encoding_that_cannot_be_read_is_no_answer_about_a_schema(
    server: Answered, encoding: str, body: bytes, message: str
) -> None:
    server.answers = {"/schemas/ids/7": says(body, headers={"Content-Encoding": encoding})}
    with pytest.raises(RegistryAway, match=message) as away:
        client(server.url).schema("7")
    assert not away.value.refused


def test_whoever_is_not_answered_ends_the_others(server: Answered) -> None:
    server.answers = {f"/schemas/ids/{n}": hangs for n in range(1, 1_001)}
    with pytest.raises(RegistryAway):
        client(server.url).lookup([str(n) for n in range(1, 1_001)], RUN, patience=0.2)
    assert len(server.asked) < 100


def test_the_patience_for_a_schema_is_that_for_all_it_refers_to(server: Answered) -> None:
    references = [{"name": f"r{n}", "subject": f"r{n}", "version": 1} for n in range(100)]
    one = after(0.1, says({"schema": "x", "subject": "s", "version": 1, "id": 1}))
    server.answers = {f"/subjects/r{n}/versions/1": one for n in range(100)}
    server.answers["/schemas/ids/7"] = says({"schema": "x", "references": references})
    with pytest.raises(RegistryAway, match="answer for version 1 of r"):
        client(server.url, patience=0.3).schema("7")
    assert len(server.asked) < 50


@pytest.mark.parametrize("answer", [drips, floods])
def test_an_answer_without_an_end_is_not_read_on(server: Answered, answer: Answer) -> None:
    server.answers, before = {"/schemas/ids/7": answer}, threading.enumerate()
    with pytest.raises(RegistryAway):
        client(server.url, patience=0.2, pace=replace(ONCE, one_try=0.5)).schema("7")
    for thread in {*threading.enumerate()} - {*before}:
        if thread.name == "tidegate-registry":
            thread.join(10)
            assert not thread.is_alive()


def test_a_process_has_one_client_of_a_registry() -> None:
    one = Registry({"url": "http://127.0.0.1:9"})
    assert client_of(one) is client_of(Registry(dict(one.options)))
    assert client_of(one) is not client_of(Registry({"url": "http://127.0.0.1:9", "timeout": "2"}))


def test_no_password_is_shown_however_it_is_written(server: Answered) -> None:
    host = server.url.removeprefix("http://")
    refusal = says({"error_code": 500, "message": "no p@ss, no p%40ss"}, 500)
    server.answers = {"/schemas/ids/7": refusal}
    with pytest.raises(RegistryAway) as away:
        client(f"http://me:p%40ss@{host}").schema("7")
    assert "p@ss" not in str(away.value)
    assert "p%40ss" not in str(away.value)
    shown = Registry({"url": f"http://me:p%40ss@{host}/at?token=hush#frag", "bearer.auth.token": "Bearer-abc"})
    assert str(shown) == f"http://{host}/at"
    assert b64encode(b"me:p@ss").decode() in shown.secrets
    assert {"p@ss", "p%40ss", "hush", "token=hush", "frag", "Bearer-abc"} <= set(shown.secrets)


AWAY = {
    "401": refuses(401, 40101),
    "403": refuses(403),
    "408": refuses(408),
    "418": refuses(418),
    "429": refuses(429),
    "500": refuses(500, 50001),
    "503": refuses(503),
    "redirect": says(b"", 302),
    "HTML": says(b"<html>Sign in</html>", kind="text/html"),
    "a list": says([1]),
    "no schema": says({"id": 7}),
    "a schema that is no text": says({"schema": {"type": "string"}}),
    "half an answer": half,
    "no answer": hangs,
    "byte by byte": drips,
    "an answer without an end": floods,
}


@pytest.mark.slow
@pytest.mark.parametrize("answer", AWAY.values(), ids=AWAY.keys())
def test_what_is_no_answer_is_asked_again_and_then_is_away(server: Answered, answer: Answer) -> None:
    server.answers = {"/schemas/ids/7": answer}
    with within(1), pytest.raises(RegistryAway) as away:
        client(server.url, patience=0.2, pace=Pace(pause=0.05)).schema("7")
    assert server.url in str(away.value)
    assert "answer for schema 7" in str(away.value)


def test_a_closed_port_is_away_and_another_address_is_asked_instead(server: Answered) -> None:
    closed = "http://127.0.0.1:9"
    with pytest.raises(RegistryAway, match=r"127\.0\.0\.1:9"):
        client(closed).schema("7")
    server.answers = {"/schemas/ids/7": SCHEMA}
    assert client(closed, server.url, pace=Pace(pause=0.01)).schema("7") == WriterSchema("7", "avro", '"string"')


def test_what_was_away_for_a_moment_answers_after_all(server: Answered) -> None:
    busy = refuses(503)

    def second_time(handler: object, answered: Answered) -> None:
        (busy if len(answered.asked) == 1 else SCHEMA)(handler, answered)  # type: ignore[arg-type]

    server.answers = {"/schemas/ids/7": second_time}
    assert client(server.url, pace=Pace(pause=0.01)).schema("7") is not None
    assert len(server.asked) == 2


def test_an_id_that_has_come_to_mean_something_else_is_seen(server: Answered) -> None:
    asking = client(server.url)
    server.answers = {"/schemas/ids/7": SCHEMA}
    assert asking.schema("7") == WriterSchema("7", "avro", '"string"')
    server.answers = {"/schemas/ids/7": says({"schema": '"int"'})}
    assert asking.schema("7") == WriterSchema("7", "avro", '"int"')


def test_an_id_is_asked_for_in_its_context(server: Answered) -> None:
    server.answers = {"/schemas/ids/7": SCHEMA}
    client(server.url).schema("7", ":.bank:transfers")
    assert server.asked == ["/schemas/ids/7?subject=%3A.bank%3Atransfers"]


def test_a_password_is_sent_and_never_shown(server: Answered) -> None:
    given = client(server.url, options={"basic_auth_user_info": "me:hush"})
    assert given.schema("7") is None
    assert server.authorization == ["me:hush"]
    server.answers = {"/schemas/ids/7": says(b"<p>me:hush is wrong</p>", 401, kind="text/html")}
    with pytest.raises(RegistryAway) as away:
        given.schema("7")
    in_url = client(server.url.replace("//", "//me:hush@"))
    with pytest.raises(RegistryAway) as again:
        in_url.schema("7")
    assert "hush" not in f"{away.value} {again.value} {given.registry!r} {in_url.registry}"
    assert away.value.status == 401


def test_a_token_is_sent(server: Answered) -> None:
    token = {
        "bearer_auth_credentials_source": "STATIC_TOKEN",
        "bearer_auth_token": "abc",
        "bearer_auth_logical_cluster": "lsrc-1",
        "bearer_auth_identity_pool_id": "pool",
    }
    client(server.url, options=token).schema("7")
    assert server.authorization == ["Bearer abc"]


@pytest.mark.parametrize(
    "options", [{"no_such_option": "hush"}, {"basic_auth_user_info": "hush"}, {"ssl_ca_location": "/nowhere/hush"}]
)
def test_options_that_the_client_does_not_take_are_refused_without_their_values(options: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="TIDEGATE_REGISTRY_") as refused:
        client("http://127.0.0.1:9", options=options)
    assert "hush" not in str(refused.value)


def test_where_a_registry_is_travels_to_the_workers() -> None:
    registry = Registry({"url": "http://a:b@one, http://two"})
    assert pickle.loads(pickle.dumps(registry)) == registry  # noqa: S301  our own
    assert str(registry) == "http://one, http://two"
