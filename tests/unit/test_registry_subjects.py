"""What commands ask a registry, where it answers with something else than a registry does."""

import pytest

from platform_defs.errors import BadInput, RegistryAway
from resources.registry import subjects as asked
from resources.registry.address import Registry
from resources.registry.subjects import Subjects
from tests.unit.registry_double import Answer, half, refuses, registry_double, says

LATEST = "/subjects/s/versions/latest"


@pytest.mark.parametrize(
    "answer",
    [says(b"<html>", kind="text/html"), says([1]), says({"id": "x", "version": 1}), half, refuses(401), refuses(500)],
)
def test_what_is_no_answer_of_a_registry_is_said_once_and_soon(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "PAUSE", 0.0)
    with registry_double() as server:
        server.answers[LATEST] = answer
        with pytest.raises(RegistryAway, match=r"did not answer \(newest version of s\).*Nothing was changed"):
            Subjects(Registry({"url": server.url})).version("s")
        assert len(server.asked) == asked.TRIES


def test_a_subject_that_is_not_there_has_no_version_and_a_second_address_is_asked() -> None:
    with registry_double() as server:
        registry = Registry({"url": f"http://127.0.0.1:9,{server.url}"})
        server.answers[LATEST] = refuses(404, 40401)
        assert Subjects(registry).version("s") is None
        server.answers["/config/s"] = refuses(404, 40408)
        assert Subjects(registry).level("s") is None
        server.answers["/config/s"] = says({"compatibilityLevel": "FULL"})
        assert Subjects(registry).level("s") == "FULL"


def test_confluents_reasons_are_shown_without_the_schemas_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = ["{errorType:'MISSING_UNION_BRANCH', at: /fields/0}", "{oldSchemaVersion: 1}", "{oldSchema: '...'}"]
    with registry_double() as server:
        server.posts["/compatibility/subjects/s/versions"] = says({"is_compatible": False, "messages": messages})
        client = Subjects(Registry({"url": server.url}))
        assert client.incompatibilities("s", "avro", '"int"') == (messages[0],)
        server.posts["/subjects/s/versions"] = says({"error_code": 409, "message": "incompatible\n schema"}, 409)
        with pytest.raises(BadInput, match=r"refuses \(registering a schema under s\): incompatible schema"):
            client.register("s", "avro", '"int"')
