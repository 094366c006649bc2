"""Dagster, Spark and the commands show no classified value and no password: not in their output, in the files under
TIDEGATE_HOME, or in the list of processes.
"""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from platform_defs.cli.main import main
from platform_defs.settings.contracts import find_pipeline
from platform_defs.settings.settings import PROJECT_ROOT, settings
from platform_defs.stack import state
from tests.integration.systems.test_nothing_leaks import Planted, bad_messages, places
from tests.support.world import World, transfer, transfers

pytestmark = pytest.mark.slow  # a separate run of Dagster, and twenty commands

PASSWORDS = {
    "TIDEGATE_KAFKA_SASL_PASSWORD": "Xr3PasswordSasl",
    "TIDEGATE_KAFKA_SSL_KEY_PASSWORD": "Xr3PasswordKey",
    "TIDEGATE_REGISTRY_BASIC_AUTH_USER_INFO": "me:Xr3PasswordRegistry",
    "TIDEGATE_SPARK_SECRET": "Xr3PasswordSpark",
}
NAME = "leaks_transfers"
DATA = ("kafka/data", "postgres/data", "unsent", "postgres.password")  # messages and the password themselves
FAILING = """
import pandas as pd
from pyspark.sql import functions as F


def transform(messages):
    def check(memos: pd.Series) -> pd.Series:
        for memo in memos:
            if "Zq7Planted" in memo:
                raise ValueError(f"cannot do {memo}")
        return memos

    checked = F.pandas_udf(check, "string")("memo")
    account = F.col("debit_account").alias("account")
    found = messages.withColumn("memo", checked).where("memo <> 'never'")
    return found.select("transfer_id", account, "amount", "currency", "occurred_at", "_partition", "_offset")
"""
FORMS = ("human", "json")
COMMANDS = [
    f"dlq list {NAME} --limit 50",
    f"dlq show {NAME} 0 0",
    f"lag {NAME}",
    "lag",
    f"plan {NAME}",
    f"resolve {NAME}",
    f"verify {NAME}",
    f"replay {NAME} --from earliest",
    f"contract diff {NAME}",
    f"peek {NAME} --limit 100",
    f"peek {NAME} --where _offset>=0",
    f"peek {NAME} --where memo>''",
    "peek leaks.transfers --raw",
    "topics list",
    "topics describe leaks.transfers",
    "topics plan",
    "cluster health",
    "doctor",
    "stack status",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with the shipped transfers as another pipeline; passwords in every setting that takes one."""
    domain = tmp_path_factory.mktemp("contracts") / "leaks"
    domain.mkdir()
    shipped = PROJECT_ROOT / "assets" / "bank"
    text = (shipped / "transfers.odcs.yaml").read_text().replace("id: bank_", "id: leaks_")
    text = text.replace("domain: bank", "domain: leaks").replace("bank.", "leaks.")
    (domain / "transfers.odcs.yaml").write_text(text)
    shutil.copy(shipped / "transfers.py", domain)
    failing = text.replace("leaks_transfers", "leaks_failing").replace("leaks.", "failing.")
    (domain / "failing.odcs.yaml").write_text(failing)
    (domain / "failing.py").write_text(FAILING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CONTRACTS", str(domain.parent))
        for name, value in PASSWORDS.items():
            patch.setenv(name, value)
        yield domain.parent


def run(*command: str) -> tuple[str, str]:
    """Return a command's output, and the command lines of all processes while it runs."""
    seen = set[str]()
    with subprocess.Popen(
        command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    ) as process:
        while True:
            try:
                message, _ = process.communicate(timeout=0.3)
                return message, "\n".join(seen)
            except subprocess.TimeoutExpired:
                seen |= {" ".join(words(one)) for one in psutil.process_iter()}


def answered(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the output of `tidegate`, called in this process, on both streams."""
    with pytest.MonkeyPatch.context() as patch, suppress(SystemExit):
        patch.setattr(sys, "argv", ["tidegate", *arguments])
        patch.setattr("platform_defs.cli.ended_by_signal.continue_in_a_child", lambda _: None)  # nor fork this process
        main()
    return "".join(capfd.readouterr())


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def files(home: Path) -> Iterator[Path]:
    """Yield the files under TIDEGATE_HOME, except those that store messages."""
    kept = [home / name for name in DATA]
    for path in home.rglob("*"):
        if path.is_file() and not any(path.is_relative_to(one) for one in kept):
            yield path


@pytest.mark.longest
@pytest.mark.usefixtures("folder")
def test_nothing_is_shown_outside_of_tables_and_dead_letters(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    planted, pipeline = Planted(), find_pipeline(NAME)
    world.create_topic(pipeline.contract.topic)
    failing = find_pipeline("leaks_failing")
    world.create_topic(failing.contract.topic)
    accounts = [transfer(700 + n, debit=planted.account, memo=planted.secret) for n in range(2)]
    world.send(pipeline, [*bad_messages(planted), *accounts, *transfers(4, start=600)], partition=0)
    world.send(failing, [transfer(1, memo=planted.secret), *transfers(4, start=800)], partition=0)
    dagster = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "platform_defs.definitions"]
    shown = run(*dagster, "--select", 'group:"leaks"')
    assert "cannot be transformed, although others can" in shown[0]  # leaks_failing
    assert len(world.dead_letters(pipeline)) == len(bad_messages(planted))
    table, accumulate = (table.name for table in pipeline.contract.tables)
    world.rows(f"UPDATE {table} SET account = 'A00042' WHERE account = %s", planted.account)  # verify and replay differ
    world.rows(f"UPDATE {accumulate} SET balance = balance + 1 WHERE account = %s", planted.account)
    capfd.readouterr()
    answer = {(command, form): answered(capfd, *command.split(), "-o", form) for command in COMMANDS for form in FORMS}
    everything = "\n".join([*shown, *answer.values()])
    secrets = [planted.secret, planted.account, *PASSWORDS.values(), "Xr3Password", state.password(settings().home)]
    assert [text for text in secrets if text in everything] == []
    assert [(text, places(world, text)) for text in secrets if places(world, text)] == []
    home = settings().home
    assert [(path, text) for path in files(home) for text in secrets if text.encode() in path.read_bytes()] == []
    # The search works: open values were printed, and there were differences.
    assert planted.open in answer[f"dlq list {NAME} --limit 50", "json"]
    assert '"ok": false' in answer[f"verify {NAME}", "json"]
    assert planted.open in answer[f"peek {NAME} --limit 100", "json"]
    assert "(hidden)" in answer[f"replay {NAME} --from earliest", "json"]
    assert planted.secret in answered(capfd, "dlq", "show", NAME, "0", "0", "--values")


def test_what_the_embedded_servers_write_is_their_owners_alone() -> None:
    home = settings().home
    assert stat.S_IMODE(home.stat().st_mode) & 0o067 == 0
    written = [*(home / "logs").glob("*.log"), home / "stack.json", home / "postgres.password"]
    written += (home / "kafka").rglob("*")
    open_ones = {str(path) for path in written if path.exists() and path.stat().st_mode & 0o077}
    assert open_ones == set()
