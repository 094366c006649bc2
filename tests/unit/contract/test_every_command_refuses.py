"""Every command refuses what `tidegate contract validate` refuses: a contract that no run accepts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from platform_defs.cli.main import COMMANDS, app, load
from platform_defs.contract_changes.gate import gate
from platform_defs.errors import BadInput
from platform_defs.schemas.conversion.exchange import write
from platform_defs.schemas.conversion.importing import Imported
from platform_defs.settings.contracts import find_all, read_contracts
from tests.unit.contract.contract_mistakes import GOOD, MISTAKES

OPTIONAL_FIELD = ("physicalType: decimal(10,2)\n        required: true", "physicalType: decimal(10,2)")
UNKNOWN_COLUMN = ("{name: weight, physicalType: double}", "{name: mass, physicalType: double}")
ACCUMULATE = GOOD[GOOD.index("  - name: totals") :]
UPSERT = GOOD.replace(ACCUMULATE, "").replace("value: append", "value: upsert")
DIRECT = GOOD.replace(ACCUMULATE, "").replace("batchMessages, value: 1000", "publication, value: direct")
DIRECT = DIRECT[: DIRECT.index("    quality:\n      - name: some_orders")]
TRANSFORM = "def transform(messages):\n    return messages\n"

# One mistake for each step of reading a contract: the files, below the contracts' folder, and the message.
OF_EACH_STEP: dict[str, tuple[dict[str, str], str]] = {
    "yaml": ({"shop/orders.odcs.yaml": "id: ["}, "not YAML"),
    "unknown key": ({"shop/orders.odcs.yaml": GOOD.replace("version:", "versoin:")}, "did you mean 'version'"),
    "wrong type": ({"shop/orders.odcs.yaml": GOOD.replace("required: true", 'required: "yes"', 1)}, "true or false"),
    "value": ({"shop/orders.odcs.yaml": GOOD.replace("value: 1000}", "value: 0}")}, "positive whole number"),
    "domain": ({"shop/orders.odcs.yaml": GOOD.replace("domain: shop", "domain: store")}, "use one name"),
    "path": ({"deep/shop/orders.odcs.yaml": GOOD}, "rename or move this file"),
    "clash": ({"shop/orders.odcs.yaml": GOOD, "shop/again.odcs.yaml": GOOD}, "pipeline shop_orders is also defined"),
    "optional field of a required column": (
        {"shop/orders.odcs.yaml": GOOD.replace(*OPTIONAL_FIELD)},
        "price is required in the table, so it must be required in the message",
    ),
    "column of no field": ({"shop/orders.odcs.yaml": GOOD.replace(*UNKNOWN_COLUMN)}, "mass is not a field"),
    "transform of an upsert": (
        {"shop/orders.odcs.yaml": UPSERT, "shop/orders.py": TRANSFORM},
        "an upsert table cannot have a transform",
    ),
    "transform of a direct publication": (
        {"shop/orders.odcs.yaml": DIRECT, "shop/orders.py": TRANSFORM},
        "publication: direct cannot have a transform",
    ),
}
BROKEN_TRANSFORM = {"shop/orders.odcs.yaml": GOOD, "shop/orders.py": "raise RuntimeError('no such table')\n"}

# The arguments of each command that takes a pipeline, and whether it imports the pipeline's transform.
ARGUMENTS: dict[str, tuple[str, bool]] = {
    "adopt": ("shop_orders", True),
    "contract apply": ("shop_orders --yes", True),
    "contract check": ("shop_orders", False),
    "contract diff": ("shop_orders", True),
    "contract export": ("shop_orders", False),
    "contract register": ("shop_orders", False),
    "contract validate": ("shop_orders", True),
    "dlq list": ("shop_orders", False),
    "dlq show": ("shop_orders 0 0", False),
    "lag": ("shop_orders", False),
    "peek": ("shop_orders", False),
    "plan": ("shop_orders", True),
    "produce": ("shop_orders", False),
    "prune": ("shop_orders", False),
    "replay": ("shop_orders", True),
    "resolve": ("shop_orders", False),
    "schema fetch": ("shop_orders", False),
    "schema list": ("shop_orders", False),
    "schema show": ("shop_orders 1", False),
    "send": ("shop_orders {}", False),
    "split-batch": ("shop_orders --messages 1", False),
    "topics describe": ("shop_orders", False),
    "unsent discard": ("shop_orders", False),
    "unsent list": ("shop_orders", False),
    "unsent send": ("shop_orders", False),
    "verify": ("shop_orders", True),
}
# `contract check` compares with a state of the past; the contract of today is refused whatever that is.
AGAINST = ("git:HEAD", "ledger", "registry", "{folder}/old.odcs.yaml")

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("no_variables")]


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Path]:
    """Return a function that makes these files all that is in the contracts' folder, and returns the folder."""
    count = iter(range(1_000_000))

    def put_files(files: dict[str, str]) -> Path:
        folder = tmp_path / f"contracts{next(count)}"
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setenv("TIDEGATE_CONTRACTS", str(folder))
        return folder

    return put_files


def commands_of_a_pipeline() -> Iterator[str]:
    """Yield the name of each command with an argument that a pipeline can be."""

    def within(name: str, command: Any) -> Iterator[str]:
        for below, part in getattr(command, "commands", {}).items():
            yield from within(f"{name} {below}", part)
        arguments = (item for item in command.params if item.param_type_name == "argument")
        if any("pipeline" in (item.help or "").lower() for item in arguments):
            yield name

    for name in COMMANDS:
        yield from within(name, load(name))


def lines_of(arguments: Sequence[str], folder: Path) -> Iterator[str]:
    for name in arguments:
        line = f"{name} {ARGUMENTS[name][0]}"
        yield line
        if name == "contract check":
            (folder / "old.odcs.yaml").unlink(missing_ok=True)
            yield from (f"{line} --against {against.format(folder=folder.parent)}" for against in AGAINST)


def refusal(line: str) -> str:
    """Return what the command printed and raised. It must not succeed."""
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code != 0, f"{line}: {result.output}"
    return f"{result.output}\n{result.exception}"


def test_all_commands_that_take_a_pipeline_are_tried() -> None:
    assert sorted(commands_of_a_pipeline()) == sorted(ARGUMENTS)


@pytest.mark.parametrize("step", OF_EACH_STEP)
def test_every_command_refuses_a_mistake_of_each_step(put: Callable[[dict[str, str]], Path], step: str) -> None:
    files, message = OF_EACH_STEP[step]
    folder = put(files)
    (folder.parent / "old.odcs.yaml").write_text(GOOD)
    for line in lines_of([*ARGUMENTS], folder):
        assert message in refusal(line), line


def test_commands_that_use_a_transform_refuse_one_that_cannot_be_used(
    put: Callable[[dict[str, str]], Path],
) -> None:
    folder = put(BROKEN_TRANSFORM)
    (folder.parent / "old.odcs.yaml").write_text(GOOD)
    for line in lines_of([name for name, (_, transforms) in ARGUMENTS.items() if transforms], folder):
        assert "RuntimeError: no such table" in refusal(line), line


@pytest.mark.slow
def test_every_mistake_of_a_contract_is_read_by_one_reader(put: Callable[[dict[str, str]], Path]) -> None:
    for right, wrong, *_ in MISTAKES:
        folder = put({"shop/orders.odcs.yaml": GOOD.replace(right, wrong, 1)})
        (broken,) = find_all(folder).broken
        (checked,) = gate([], "git:HEAD").contracts
        assert (checked.result, checked.problems) == ("does not fit", (str(broken.error),)), wrong


@pytest.mark.longest
def test_every_command_refuses_every_mistake(put: Callable[[dict[str, str]], Path]) -> None:
    for right, wrong, *_ in MISTAKES:
        folder = put({"shop/orders.odcs.yaml": GOOD.replace(right, wrong, 1)})
        (broken,) = read_contracts(folder).broken
        for name, (arguments, _) in ARGUMENTS.items():
            shown = refusal(f"{name} {arguments}")
            assert broken.error.problem in shown, (name, wrong)


def test_an_import_writes_no_contract_that_validate_refuses(put: Callable[[dict[str, str]], Path]) -> None:
    folder = put({"shop/prices.odcs.yaml": GOOD.replace("shop_orders", "shop_prices").replace(" shop.", " prices.")})
    fits = Imported(
        pipeline="shop_orders",
        domain="shop",
        name="orders",
        topic="shop.orders",
        table="shop.orders",
        fields=5,
        notes=(),
        text=GOOD,
    )
    misfit = replace(fits, text=GOOD.replace(*OPTIONAL_FIELD))
    for made, to, message in (
        (misfit, None, "must be required in the message"),
        (fits, folder / "shop" / "orders.yaml", "rename or move this file"),
        (fits, folder / "orders.odcs.yaml", "rename or move this file"),
        (fits, folder / "web" / "orders.odcs.yaml", "domain is 'shop', but the file is in the folder 'web'"),
        (fits, folder.parent / "orders.yaml", "a contract is called <name>.odcs.yaml"),
    ):
        with pytest.raises(BadInput, match=message):
            write(made, to)
        assert not (to or folder / "shop" / "orders.odcs.yaml").exists()
    assert write(fits, None) == folder / "shop" / "orders.odcs.yaml"
