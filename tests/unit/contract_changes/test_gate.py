"""`tidegate contract check`: the gate for CI, against git, against a file, and if neither can be read."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from platform_defs.contract_changes import gate as gates
from platform_defs.contract_changes.cli.gate_answer import show
from platform_defs.contract_changes.gate import gate
from tests.support.commands import HEAVY, tidegate
from tests.support.shipped import ASSETS
from tests.unit.registry.registry_double import registry_double, says

pytestmark = pytest.mark.long


VIEWS = "web/page_views.odcs.yaml"


def _git(folder: Path, *arguments: str) -> None:
    author = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the shipped contracts in a repository of their own, committed."""
    folder = tmp_path / "repo" / "assets"
    shutil.copytree(ASSETS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    _git(folder.parent, "init", "-q", "-b", "main")
    _git(folder.parent, "add", ".")
    _git(folder.parent, "commit", "-q", "-m", "contracts")
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(folder))
    return folder


def _edit(assets: Path, old: str, new: str) -> None:
    path = assets / VIEWS
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def _views(found: gates.Gate) -> gates.Checked:
    return next(item for item in found.contracts if item.pipeline == "web_page_views")


def test_contracts_that_have_not_changed_fit(assets: Path) -> None:
    found = gate([], "git:main")
    assert found.code == 0
    assert {item.result for item in found.contracts} == {"fits"}
    assert len(found.contracts) == 3


def test_a_change_without_a_higher_version_does_not_fit(assets: Path) -> None:
    _edit(assets, "maximum: 86400000", "maximum: 3600000")
    found = gate([], "git:main")
    assert found.code == 1
    (problem,) = _views(found).problems
    assert "Write version: 2.0.0" in problem
    assert gate(["bank_transfers"], "git:main").code == 0


def test_a_version_that_tells_enough_fits(assets: Path) -> None:
    _edit(assets, "maximum: 86400000", "maximum: 3600000")
    _edit(assets, "version: 1.0.0", "version: 1.1.0")
    assert gate([], "git:main").code == 1
    _edit(assets, "version: 1.1.0", "version: 2.0.0")
    assert gate([], "git:main").code == 0


def test_words_need_a_patch_version(assets: Path) -> None:
    _edit(assets, "An event arrives once in a batch.", "Once in a batch.")
    (problem,) = _views(gate([], "git:main")).problems
    assert "Write version: 1.0.1" in problem


def test_another_topic_does_not_fit_whatever_the_version(assets: Path) -> None:
    _edit(assets, "physicalName: web.page_views", "physicalName: web.v2")
    _edit(assets, "version: 1.0.0", "version: 2.0.0")
    assert "topic_changed" in _views(gate([], "git:main")).problems[0]


def test_a_new_contract_fits_and_a_moved_one_is_found_by_its_id(assets: Path) -> None:
    (assets / "web/views.odcs.yaml").write_text(
        (assets / VIEWS).read_text().replace("version: 1.0.0", "version: 0.9.0")
    )
    (assets / VIEWS).unlink()
    assert "older file" in _views(gate([], "git:main")).problems[0]
    text = (assets / "web/views.odcs.yaml").read_text()
    (assets / "web/views.odcs.yaml").write_text(text.replace("id: web_page_views", "id: web_views", 1))
    found = gate(["web_views"], "git:main")
    assert (found.code, found.contracts[0].result) == (0, "new")


VIEW = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "more/more.proto"; message View {
  string event_id = 1; string visitor = 2; string url = 3; google.protobuf.Timestamp viewed_at = 4; More more = 5; }"""
MORE = 'syntax = "proto3"; message More { string text = 1; }'


def test_a_schema_file_is_compared_with_the_one_of_its_commit(assets: Path) -> None:
    properties = "[{property: framing, value: none}, {property: schemaFile, value: view.proto}]"
    _edit(assets, "format: json", f"format: protobuf, customProperties: {properties}")
    view, more = assets / "web/view.proto", assets / "web/more/more.proto"
    more.parent.mkdir()
    view.write_text(VIEW)
    more.write_text(MORE)
    _git(assets, "add", ".")
    _git(assets, "commit", "-q", "-m", "protobuf")
    assert gate([], "git:main").code == 0
    for file, original in ((view, VIEW), (more, MORE)):
        file.write_text(f"{original}\n")
        assert "Write version: 2.0.0" in _views(gate([], "git:main")).problems[0]
        file.write_text(original)
    assert gate([], "git:main~1").code == 1
    more.write_text("message")
    assert "does not compile" in _views(gate([], "git:main")).problems[0]


def test_a_contract_that_cannot_be_read_does_not_fit(assets: Path) -> None:
    _edit(assets, "version: 1.0.0", "versoin: 1.0.0")
    found = gate([], "git:main")
    assert found.code == 1
    assert "did you mean 'version'" in str(found.contracts[-1].problems)


def test_what_cannot_be_asked_is_told_apart(assets: Path) -> None:
    found = gate([], "git:nowhere")
    assert found.code == 2
    assert "no such branch, tag or commit in this repository" in _views(found).problems[0]
    missing = gate([], str(assets / "nothing.odcs.yaml"))
    assert missing.code == 2
    _edit(assets, "version: 1.0.0", "versoin: 1.0.0")
    _git(assets, "commit", "-q", "-am", "broken")
    _edit(assets, "versoin: 1.0.0", "version: 1.0.0")
    assert gate([], "git:main").code == 2


def test_where_nothing_is_compared_a_broken_contract_is_answered_all_the_same(
    assets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _edit(assets, "version: 1.0.0", "versoin: 1.0.0")
    found = gate([], "/nowhere/none.odcs.yaml")
    assert found.code == 2
    results = {item.pipeline: item.result for item in found.contracts}
    assert results["web/page_views"] == "does not fit"
    assert {*results.values()} == {"does not fit", "not compared"}
    show(found, "text")
    assert "/nowhere/none.odcs.yaml" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_a_folder_whose_only_contract_is_broken_is_not_compared_with_a_file_that_is_not_there(
    assets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    _edit(assets, "version: 1.0.0", "versoin: 1.0.0")
    shutil.copytree(assets / "web", assets.parent / "alone" / "web")
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(assets.parent / "alone"))
    found = gate([], "/nowhere/none.odcs.yaml")
    assert (found.code, [item.result for item in found.contracts]) == (2, ["does not fit"])
    show(found, form)
    message = capsys.readouterr().out
    assert "/nowhere/none.odcs.yaml" in message
    assert "Nothing to check" not in message


def test_a_folder_without_contracts_has_nothing_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))
    show(gate([], "git:main"), "text")
    assert capsys.readouterr().out == "Nothing to check against git:main: there are no contracts.\n"


def test_one_contract_is_compared_with_a_file(assets: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.odcs.yaml"
    kept.write_text((assets / VIEWS).read_text())
    assert [item.pipeline for item in gate([], str(kept)).contracts] == ["web_page_views"]
    _edit(assets, "maximum: 86400000", "maximum: 90000000")
    assert gate([], str(kept)).code == 1


def test_github_gets_one_line_for_each_problem(assets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _edit(assets, "maximum: 86400000", "maximum: 3600000")
    show(gate([], "git:main"), "github")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"::error file={assets}/web/page_views.odcs.yaml,title=web_page_views::")


def test_github_gets_the_line_of_a_contract_that_cannot_be_read(
    assets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _edit(assets, "version: 1.0.0", "versoin: 1.0.0")
    show(gate([], "git:main"), "github")
    line = 1 + (assets / VIEWS).read_text().splitlines().index("versoin: 1.0.0")
    message = capsys.readouterr().out
    assert f"::error file={assets}/web/page_views.odcs.yaml,line={line},title=web/page_views::" in message


@pytest.mark.slow
def test_the_gate_against_a_registry_imports_neither_spark_nor_dagster(assets: Path, tmp_path: Path) -> None:
    record = {"type": "record", "name": "V", "fields": [{"name": "url", "type": "bytes"}]}
    _edit(assets, "format: json", "format: avro, customProperties: [{property: subject, value: views}]")
    with registry_double() as server:
        server.answers["/subjects/views/versions"] = says([3])
        server.answers["/subjects/views/versions/3"] = says({"id": 7, "version": 3, "schema": "", "subject": "views"})
        server.answers["/schemas/ids/7"] = says({"schema": json.dumps(record)})
        server.posts["/compatibility/subjects/views/versions"] = says({"is_compatible": True})
        where = {"TIDEGATE_REGISTRY_URL": server.url, "TIDEGATE_HOME": str(tmp_path / "home")}
        asked = tidegate("contract", "check", "--against", "registry", "-o", "json", **where)
    (found,) = asked.document["contracts"]
    assert (asked.code, found["result"]) == (1, "does not fit")
    assert found["problems"][0].startswith("version 3 (id 7), not used by any message, does not fit: ")
    assert "the ledger was not checked: there is none" in found["notices"]
    assert asked.packages.isdisjoint(HEAVY)


def test_the_gate_against_a_registry_says_how_many_versions_it_has_not_looked_at(
    assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _edit(assets, "format: json", "format: avro, customProperties: [{property: subject, value: views}]")
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    with registry_double() as server:
        monkeypatch.setenv("TIDEGATE_REGISTRY_URL", server.url)
        server.answers["/subjects/views/versions"] = says([*range(1, 131)])
        for number in range(1, 131):
            server.answers[f"/subjects/views/versions/{number}"] = says({"id": 7, "version": number})
        server.answers["/schemas/ids/7"] = says({"schema": '"int"'})
        server.posts["/compatibility/subjects/views/versions"] = says({"is_compatible": True})
        found = _views(gate(["web_page_views"], "registry"))
    assert "views: 30 versions older than the newest 100 not checked" in found.notices
    asked = {path for path in server.asked if path.startswith("/subjects/views/versions/")}
    assert asked == {f"/subjects/views/versions/{number}" for number in range(31, 131)}


@pytest.mark.parametrize(("others", "result"), [("dead_letter", "does not fit"), ("skip", "fits")])
def test_a_version_of_another_record_does_not_fit_unless_such_messages_are_skipped(
    others: str, result: str, assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = {"subject": "views", "message": "web.View", "otherRecords": others, "compatibility": "NONE"}
    properties = ", ".join(f"{{property: {name}, value: {value}}}" for name, value in wire.items())
    _edit(assets, "format: json", f"format: protobuf, customProperties: [{properties}]")
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    with registry_double() as server:
        monkeypatch.setenv("TIDEGATE_REGISTRY_URL", server.url)
        server.answers["/subjects/views/versions"] = says([1])
        server.answers["/subjects/views/versions/1"] = says({"id": 7, "version": 1, "schemaType": "PROTOBUF"})
        renamed = 'syntax = "proto3"; package shop; message View { string url = 1; }'
        server.answers["/schemas/ids/7"] = says({"schema": renamed, "schemaType": "PROTOBUF"})
        found = _views(gate(["web_page_views"], "registry"))
    assert found.result == result, found.problems
    assert found.notices[0] == "views: 1 schema, 0 fit, 1 of other records"
    wrong = "it describes shop.View, but the contract reads web.View"
    message = f"version 1 (id 7), not used by any message, does not fit: {wrong}"
    assert found.problems == ((message,) if result == "does not fit" else ())


def test_the_gate_starts_quickly_and_imports_no_system() -> None:
    started = time.monotonic()
    asked = tidegate("contract", "check", "--against", "git:HEAD", "-o", "json")
    if "no such branch" not in asked.stdout:  # a copy without its repository
        assert asked.document["fits"] is (asked.code == 0)
    assert asked.packages.isdisjoint({*HEAVY, "psycopg", "confluent_kafka", "pyarrow", "numpy"})
    assert time.monotonic() - started < 10  # two seconds, on a machine that does nothing else
