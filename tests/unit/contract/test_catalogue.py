"""A mistake in one file under assets/ is reported, and never keeps another file from being used."""

import os
from pathlib import Path

import pytest

from platform_defs.contract.model.contract import SUFFIX, Contract, stem
from platform_defs.contract.reader import catalogue
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from platform_defs.settings.contracts import Catalogue, find_all, find_contract, find_pipeline, read_contracts

CONTRACT = """\
apiVersion: v3.1.0
kind: DataContract
id: {id}
version: 1.0.0
domain: {domain}
servers: [{{server: kafka, type: kafka, host: "kafka:9092", format: json}}]
schema:
  - name: events
    physicalType: topic
    physicalName: {topic}
    properties:
      - {{name: event_id, logicalType: string, required: true}}
  - name: rows
    physicalType: table
    physicalName: {table}
    customProperties: [{{property: disposition, value: append}}]
    properties:
      - {{name: event_id, logicalType: string, required: true}}
"""
TRANSFORM = "def transform(messages):\n    return messages\n"


def add(folder: Path, name: str, text: str | bytes | None = None, *, domain: str = "shop", **names: str) -> Path:
    """Write a contract `name` into the domain's folder; id, topic and table are named after it by default."""
    known = {"id": name, "domain": domain, "topic": f"{domain}.{name}", "table": f"{domain}.{name}"} | names
    path = folder / domain / f"{name}{SUFFIX}"
    path.parent.mkdir(exist_ok=True)
    written = CONTRACT.format(**known) if text is None else text
    path.write_bytes(written if isinstance(written, bytes) else written.encode())
    return path


def transform(contract: Path, text: str) -> Path:
    path = contract.with_name(f"{stem(contract)}.py")
    path.write_text(text, encoding="utf-8")
    return path


def only_broken(found: Catalogue, path: Path) -> BadInput:
    """Return the error of the one file that cannot be used; `good` is the only pipeline."""
    assert [pipeline.name for pipeline in found.pipelines] == ["good"]
    (item,) = found.broken
    assert item.path == path
    return item.error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an assets folder with one good pipeline."""
    add(tmp_path, "good")
    return tmp_path


UNREADABLE = [
    ("", "not an ODCS contract"),
    ("[]", "not an ODCS contract"),
    ("a: [", "not YAML"),
    (b"\xff\xfe\x00", "not UTF-8: byte 0 is 0xff"),
    (b"id: \xc3", "not UTF-8: byte 4"),
    ("id: a\0b", "not YAML"),
    ("id: &a [*a]", "an alias of itself"),
    ("[" * 100_000, "nested too deeply"),
    ("[" * 900 + "]" * 900, "nested too deeply"),
    ("x0: &x0 [1, 1]\n" + "".join(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 40)), "100,000 values"),
    (f"version: {'9' * 5000}", "cannot be read as"),
    ("? [a, b]\n: c", "a key must be a scalar"),
    ("1: 2", "ODCS does not define a key '1'"),
    (
        CONTRACT.format(id="bad", domain="shop", topic="t", table="shop.bad").replace("name: event", "nmae: event"),
        "nmae",
    ),
]


@pytest.mark.parametrize(("text", "message"), UNREADABLE, ids=lambda part: str(part)[:30])
def test_a_file_that_cannot_be_read_affects_no_other(folder: Path, text: str | bytes, message: str) -> None:
    path = add(folder, "bad", text)
    error = only_broken(find_all(folder), path)
    assert error.file == str(path)
    with pytest.raises(BadInput, match=message):
        raise error


def test_a_folder_with_a_contracts_name_is_not_read(folder: Path) -> None:
    path = folder / "shop" / f"bad{SUFFIX}"
    path.mkdir()
    assert "cannot be read: Is a directory" in str(only_broken(find_all(folder), path))


def test_a_link_to_nowhere_is_not_read(folder: Path) -> None:
    path = folder / "shop" / f"bad{SUFFIX}"
    path.symlink_to(folder / "nowhere")
    assert "cannot be read: No such file" in str(only_broken(find_all(folder), path))


def test_an_unexpected_error_names_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = add(folder, "bad")

    def fails(path: Path, content: str | None = None) -> Contract:
        if path == bad:
            raise ZeroDivisionError("of all things")
        return load(path, content)

    monkeypatch.setattr(catalogue, "load", fails)
    error = only_broken(find_all(folder), bad)
    assert (error.file, "ZeroDivisionError: of all things" in str(error)) == (str(bad), True)


@pytest.mark.parametrize(
    "place", ["shop/.odcs.yaml", "lost.odcs.yaml", "shop/deep/lost.odcs.yaml", "shop/lost.odcs.yml"]
)
def test_a_contract_where_none_is_looked_for_is_not_passed_over(folder: Path, place: str) -> None:
    path = folder / place
    path.parent.mkdir(exist_ok=True)
    path.write_text(CONTRACT.format(id="lost", domain="shop", topic="t", table="shop.lost"))
    assert "<domain>/<name>.odcs.yaml" in str(only_broken(find_all(folder), path))


def test_links_to_folders_are_followed_but_not_in_circles(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    add(elsewhere, "linked", domain="web")
    (folder / "web").symlink_to(elsewhere / "web")
    for place in (folder / "itself", elsewhere / "web" / "up", elsewhere / "web" / "root"):
        place.symlink_to({"itself": folder, "up": elsewhere, "root": "/"}[place.name])
    found = find_all(folder)
    assert not found.broken
    assert [pipeline.name for pipeline in found.pipelines] == ["good", "linked"]


def test_a_kubernetes_volume_and_an_editors_copies_are_read_once(tmp_path: Path) -> None:
    folder = tmp_path / ".hidden" / "assets"  # what is above the folder does not matter
    folder.mkdir(parents=True)
    version = add(folder, "x").parent.rename(folder / "..2026_11_28")
    (folder / "..data").symlink_to(version.name)
    (folder / "shop").symlink_to("..data")
    volume = add(folder, "y", domain="web").parent
    (volume / "..2026_11_28").mkdir()
    (volume / f"y{SUFFIX}").rename(volume / "..2026_11_28" / f"y{SUFFIX}")
    (volume / "..data").symlink_to("..2026_11_28")
    (volume / f"y{SUFFIX}").symlink_to(f"..data/y{SUFFIX}")
    for place in (folder, volume):
        (place / ".ipynb_checkpoints").mkdir()
        add(place, "y-checkpoint", domain=".ipynb_checkpoints", id="y")
    found = find_all(folder)
    assert not found.broken
    assert [pipeline.name for pipeline in found.pipelines] == ["x", "y"]


def test_the_domain_is_the_folder(folder: Path) -> None:
    path = add(folder, "bad", CONTRACT.format(id="bad", domain="store", topic="t", table="shop.bad"))
    error = only_broken(find_all(folder), path)
    assert (error.line, error.field) == (5, "domain")
    assert "'store', but the file is in the folder 'shop'" in str(error)


@pytest.mark.parametrize(
    ("names", "field", "line", "message"),
    [
        ({"id": "same"}, "id", 3, "pipeline same is also defined in"),
        ({"table": "shop.same"}, "rows.physicalName", 15, "table shop.same is also defined in"),
    ],
)
def test_of_those_that_claim_one_name_none_is_used(
    folder: Path, names: dict[str, str], field: str, line: int, message: str
) -> None:
    claimants = [add(folder, "a", **names), add(folder, "b", **names), add(folder, "c", domain="web", **names)]
    found = find_all(folder)
    assert [pipeline.name for pipeline in found.pipelines] == ["good"]
    assert [item.path for item in found.broken] == claimants
    for item in found.broken:
        assert (item.error.file, item.error.line, item.error.field) == (str(item.path), line, field)
        assert message in str(item.error)
        assert all(str(other) in str(item.error) for other in claimants)


def test_a_folder_holds_several_contracts_and_a_topic_feeds_several(folder: Path) -> None:
    add(folder, "first", topic="shared")
    add(folder, "second", topic="shared")
    add(folder, "third", topic="shared", domain="web")
    found = find_all(folder)
    assert not found.broken
    assert [pipeline.name for pipeline in found.pipelines] == ["first", "good", "second", "third"]
    assert [pipeline.contract.topic for pipeline in found.pipelines].count("shared") == 3


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "has no function transform"),
        ("transform = 3", None, "has no function transform"),
        ("def transform(): ...", None, "takes one argument"),
        ("def transform(a, b): ...", None, "takes one argument"),
        ("\nimport no_such_module_anywhere", 2, "ModuleNotFoundError"),
        ("def transform(:\n", 1, "SyntaxError"),
        ("\n\ndef f():\n    1 / 0\nf()", 4, "ZeroDivisionError"),
        ("import sys\nsys.exit(3)", 2, "SystemExit: 3"),
        ("class Odd(BaseException): ...\nraise Odd('why')", 2, "Odd: why"),
        ("class Mute(Exception):\n    def __str__(self): raise OSError\nraise Mute", 3, "its text cannot be shown"),
        ("raise ValueError('\\ud800')", 1, r"ValueError: \ud800"),
        ("def __getattr__(name): raise RuntimeError('no')", 1, "RuntimeError: no"),
        ("from platform_defs.errors import BadInput\nraise BadInput('of its own')", 2, "of its own"),
        ("x = '\0'", None, "SyntaxError"),
    ],
)
def test_a_transform_that_cannot_be_used_affects_no_other(
    folder: Path, text: str, line: int | None, message: str
) -> None:
    path = add(folder, "bad")
    beside = transform(path, text)
    error = only_broken(find_all(folder), path)
    assert (error.file, error.line) == (str(beside), line)
    assert message in str(error)
    assert find_contract("bad", folder).pipeline == "bad"  # the contract itself is sound
    with pytest.raises(BadInput, match=message.split(":")[0]):
        find_pipeline("bad", folder)


def test_transforms_of_one_name_in_two_domains_are_two_modules(folder: Path) -> None:
    for domain in ("shop", "web"):
        path = add(folder, "same", domain=domain, id=f"{domain}_same")
        transform(path, f"DOMAIN = {domain!r}\n{TRANSFORM.replace('return messages', 'return DOMAIN')}")
    shop, web = (find_pipeline(f"{domain}_same", folder).transform for domain in ("shop", "web"))
    assert shop
    assert web
    assert (shop.__module__, web.__module__) == (f"{folder.name}.shop.same", f"{folder.name}.web.same")
    messages: object = None
    made = [of(messages) for of in (shop, web)]  # pyright: ignore[reportArgumentType]  # no Spark here
    assert made == ["shop", "web"]


def test_a_transform_that_has_changed_within_a_second_is_imported_as_it_is_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    path, messages, made = add(folder, "changed"), None, list[object]()
    for word in ("old", "new"):
        beside = transform(path, TRANSFORM.replace("return messages", f"return {word!r}"))
        os.utime(beside, (0, 0))
        found = find_pipeline("changed", folder).transform
        assert found
        made.append(found(messages))  # pyright: ignore[reportArgumentType]  # no Spark here
    assert made == ["old", "new"]


def test_an_upsert_takes_no_transform(folder: Path) -> None:
    text = CONTRACT.format(id="bad", domain="shop", topic="t", table="shop.bad").replace("append", "upsert")
    path = add(folder, "bad", text)
    transform(path, TRANSFORM)
    assert "upsert table cannot have a transform" in str(only_broken(find_all(folder), path))


def test_without_a_transform_the_columns_are_fields(folder: Path) -> None:
    text = CONTRACT.format(id="bad", domain="shop", topic="t", table="shop.bad")
    path = add(folder, "bad", text[::-1].replace("event_id"[::-1], "event_no"[::-1], 1)[::-1])
    assert only_broken(find_all(folder), path).line == 18
    transform(path, TRANSFORM)
    assert not find_all(folder).broken


def test_a_pipeline_that_is_asked_for_says_its_own_mistake(folder: Path) -> None:
    add(folder, "bad", "id: 1.5")
    add(folder, "worse", "a: [")
    for name in ("shop/bad", "shop_bad"):
        with pytest.raises(BadInput, match=r"put 1\.5 in quotes"):
            find_contract(name, folder)
    with pytest.raises(
        BadInput, match=r"no pipeline 'nothing'; the pipelines are: good\. These contracts cannot"
    ) as refused:
        find_contract("nothing", folder)
    assert all(name in str(refused.value) for name in ("bad.odcs.yaml", "worse.odcs.yaml"))


def test_where_a_transform_is(folder: Path) -> None:
    assert find_contract("good", folder).transform_path == folder / "shop" / "good.py"


def test_two_hundred_contracts_are_read(tmp_path: Path) -> None:
    for number in range(200):
        add(tmp_path, f"p{number}")
    assert len(read_contracts(tmp_path).good) == 200
