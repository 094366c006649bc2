"""Commands' requests to a registry, also if the answer is not a registry's."""

import threading
from http.server import BaseHTTPRequestHandler

import pytest

from platform_defs.errors import BadInput, RegistryAway
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.registry.subjects import ROUNDS, Subjects, Version
from platform_defs.settings.registry_address import Pace, Registry
from tests.unit.registry.registry_double import Answer, Answered, half, refuses, registry_double, says

LATEST = "/subjects/s/versions/latest"


@pytest.mark.parametrize(
    "answer",
    [says(b"<html>", kind="text/html"), says([1]), says({"id": "x", "version": 1}), half, refuses(401), refuses(500)],
)
def test_what_is_no_answer_of_a_registry_is_said_once_and_soon(answer: Answer) -> None:
    with registry_double() as server:
        server.answers[LATEST] = answer
        with pytest.raises(
            RegistryAway, match=r"returned no usable answer for the newest version of s within 1 s.*stack status"
        ):
            Subjects(Registry({"url": server.url}, pace=Pace(pause=0.01))).version("s")
        assert len(server.asked) == ROUNDS


def test_a_subject_that_is_not_there_has_no_version_and_a_second_address_is_asked() -> None:
    with registry_double() as server:
        registry = Registry({"url": f"http://127.0.0.1:9,{server.url}"})
        server.answers[LATEST] = refuses(404, 40401)
        assert Subjects(registry).version("s") is None
        server.answers["/config/s"] = refuses(404, 40408)
        assert Subjects(registry).level("s") is None
        server.answers["/config/s"] = says({"compatibilityLevel": "FULL"})
        assert Subjects(registry).level("s") == "FULL"


def test_a_subject_that_one_address_lacks_is_found_at_the_next() -> None:
    with registry_double() as behind, registry_double() as server:
        server.answers = {LATEST: says({"id": 7, "version": 3}), "/schemas/ids/7": says({"schema": '"int"'})}
        found = Subjects(Registry({"url": f"{behind.url},{server.url}"})).version("s")
        assert found == Version(3, "7", WriterSchema("7", "avro", '"int"'))


def test_a_level_that_the_registry_has_no_place_for_is_not_set() -> None:
    with registry_double() as server:
        server.puts["/config/s"] = refuses(404, 40401)
        server.answers["/config/s"] = refuses(404, 40408)
        client = Subjects(Registry({"url": server.url}))
        with pytest.raises(BadInput, match="did not set a compatibility level for s: it answered"):
            client.hold_to("s", "FULL")
        assert client.level("s") is None


def test_the_versions_of_a_subject_are_asked_for_at_once_and_come_in_their_order() -> None:
    together = threading.Barrier(4, timeout=5)

    def waits(number: int) -> Answer:
        def answer(handler: BaseHTTPRequestHandler, answered: Answered) -> None:
            together.wait()
            says({"id": 10 + number, "version": number})(handler, answered)

        return answer

    with registry_double() as server:
        server.answers["/subjects/s/versions"] = says([4, 2, 1, 3])
        for number in (1, 2, 3, 4):
            server.answers[f"/subjects/s/versions/{number}"] = waits(number)
            server.answers[f"/schemas/ids/{10 + number}"] = says({"schema": '"int"'})
        found = Subjects(Registry({"url": server.url})).versions("s")
    assert [(one.number, one.key) for one in found] == [(1, "11"), (2, "12"), (3, "13"), (4, "14")]
    assert all(one.schema is not None for one in found)


def test_confluents_reasons_are_shown_without_the_schemas_beside_them() -> None:
    messages = ["{errorType:'MISSING_UNION_BRANCH', at: /fields/0}", "{oldSchemaVersion: 1}", "{oldSchema: '...'}"]
    with registry_double() as server:
        server.posts["/compatibility/subjects/s/versions"] = says({"is_compatible": False, "messages": messages})
        client = Subjects(Registry({"url": server.url}))
        assert client.incompatibilities("s", "avro", '"int"') == (messages[0],)
        server.posts["/subjects/s/versions"] = says({"error_code": 409, "message": "incompatible\n schema"}, 409)
        with pytest.raises(BadInput, match=r"refuses the registration of a schema under s: incompatible schema"):
            client.register("s", "avro", '"int"')


def test_a_registry_that_is_away_is_waited_for_once_however_many_schemas_are_new() -> None:
    with registry_double() as server:
        server.answers["/schemas/ids/1/versions"] = says([{"subject": "t-value", "version": 3}])
        server.otherwise = refuses(503)
        subjects = Subjects(Registry({"url": server.url}, patience=0.1))
        assert subjects.places(["1", *map(str, range(2, 22))]) == {"1": [("t-value", 3)]}
        assert {path.partition("?")[0] for path in server.asked} == {f"/schemas/ids/{n}/versions" for n in (1, 2)}


def test_a_schema_that_the_registry_does_not_know_and_a_guid_have_no_place() -> None:
    with registry_double() as server:
        subjects = Subjects(Registry({"url": server.url}, patience=0.1))
        assert subjects.places(["89791762-2336-4186-9674-299b90a802e2", "7"]) == {"7": []}


def test_the_names_of_a_version_are_its_id_and_guid_and_are_asked_for_once() -> None:
    with registry_double() as server:
        server.answers["/subjects/s/versions"] = says([1, 2, 3, 4])
        server.answers["/subjects/s/versions/2"] = says({"id": 12, "version": 2})
        server.answers["/subjects/s/versions/3"] = says({"id": 13, "version": 3, "guid": "89791762"})
        subjects = Subjects(Registry({"url": server.url}))
        for _ in range(2):
            assert subjects.keys("s", 3) == {2: ("12",), 3: ("13", "89791762")}, "the fourth is deleted meanwhile"
        assert server.asked.count("/subjects/s/versions/3") == 1
