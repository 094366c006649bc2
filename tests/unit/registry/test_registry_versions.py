"""The subjects and versions of schemas, for people: a registry is not waited for long."""

from resources.registry.address import Registry
from resources.registry.versions import SubjectVersions
from tests.unit.registry.registry_double import refuses, registry_double, says


def test_a_registry_that_is_away_is_waited_for_once_however_many_schemas_are_new() -> None:
    with registry_double() as server:
        server.answers["/schemas/ids/1/versions"] = says([{"subject": "t-value", "version": 3}])
        server.otherwise = refuses(503)
        subjects = SubjectVersions(Registry({"url": server.url}, patience=0.1))
        assert subjects.places(["1", *map(str, range(2, 22))]) == {"1": [("t-value", 3)]}
        assert {path.partition("?")[0] for path in server.asked} == {f"/schemas/ids/{n}/versions" for n in (1, 2)}


def test_a_schema_that_the_registry_does_not_know_and_a_guid_have_no_place() -> None:
    with registry_double() as server:
        subjects = SubjectVersions(Registry({"url": server.url}, patience=0.1))
        assert subjects.places(["89791762-2336-4186-9674-299b90a802e2", "7"]) == {"7": []}
