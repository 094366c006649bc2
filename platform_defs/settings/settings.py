"""The addresses of the outside systems: from TIDEGATE_* variables, else from the embedded stack.

With TIDEGATE_POSTGRES_URL and TIDEGATE_KAFKA_BOOTSTRAP_SERVERS both set, nothing embedded is ever started; with one of
them, only the other is. `SETTINGS` lists every variable, for docs/reference/settings.md.
"""

import difflib
import logging
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from platform_defs.errors import BadInput
from platform_defs.settings import variables
from platform_defs.settings.postgres_address import NOT_ENCODED, is_readable
from platform_defs.settings.project import contracts_upwards, project_upwards
from platform_defs.settings.variables import FILE, KAFKA_PREFIX, PREFIX, REGISTRY_PREFIX

INTERNAL = (  # for the crash tests, the processes of `tidegate ui`, and Spark's Python workers
    "TIDEGATE_CRASH_POINT",
    "TIDEGATE_UI",
    "TIDEGATE_PYTHONPATH",
)


_REGISTRY = re.compile(r"https?://(?:[^\s/?#@]*@)?(?:\[[0-9A-Fa-f:.]+\]|[^\s:/?#@]+)(?::\d+)?(?:[/?#][^\s@]*)?")


# The project that the process was started in; else the clone that this file is in, or the working directory.
_CLONE = Path(__file__).resolve().parents[2]
PROJECT_ROOT = project_upwards() or (_CLONE if (_CLONE / "pyproject.toml").exists() else Path.cwd())
EMBEDDED_ADVICE = "Check that the embedded servers are running: tidegate stack status. To start them: tidegate stack up"


class Settings(BaseSettings):
    """The TIDEGATE_* variables. An empty one counts as unset."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore")

    home: Path = Field(
        default=PROJECT_ROOT / ".tidegate",
        description=(
            "The folder for everything that Tidegate writes: the embedded servers' data and logs, Dagster's files and "
            "Spark's scratch space. It is closed to other users. `tidegate stack reset` deletes what Tidegate created "
            "in it. The project's folder is the nearest one, upwards from the working directory, that has contracts in "
            "`assets`, dagster.yaml, workspace.yaml, or [tool.dagster] or [tool.dg] in pyproject.toml."
        ),
        examples=["/var/lib/tidegate"],
    )
    contracts: Path | None = Field(
        default=None,
        description=(
            "The folder with the contracts, in a subfolder for each domain; `docs/examples` has example contracts."
        ),
        examples=["docs/examples"],
    )
    postgres_url: str | None = Field(
        default=None,
        repr=False,
        description=(
            "The Postgres database that holds the tables, the ledger (schema `tidegate`) and Dagster's storage (schema "
            "`dagster`), as a libpq connection URI. Unset: the embedded Postgres."
        ),
        examples=["postgresql://tidegate:secret@db.example.com:5432/shop?sslmode=verify-full"],
    )
    dagster_url: str | None = Field(
        default=None,
        repr=False,
        description=(
            "The Postgres database for Dagster's storage, if it is a different one or needs a different user. "
            "Unset: that of the ledger."
        ),
        examples=["postgresql://dagster:secret@db.example.com:5432/dagster?sslmode=verify-full"],
    )
    kafka_bootstrap_servers: str | None = Field(
        default=None,
        description="The Kafka brokers, as host:port, separated by commas. Unset: the embedded Kafka.",
        examples=["kafka-1.example.com:9092,kafka-2.example.com:9092"],
    )
    registry_url: str | None = Field(
        default=None,
        repr=False,
        description=(
            "The schema registry, Confluent's or one that speaks its API, for contracts whose messages name a "
            "schema. Several addresses, separated by commas, are tried in turn. Unset: the embedded registry."
        ),
        examples=["https://registry-1.example.com:8081,https://registry-2.example.com:8081"],
    )
    registry_name: str = Field(
        default="default",
        min_length=1,
        description=(
            "The registry's name in the ledger, which keeps its schemas permanently. Keep the name when the "
            "address changes; use a different name for a different registry."
        ),
        examples=["bank"],
    )
    spark_master: str | None = Field(
        default=None,
        description=(
            "The Spark master that runs the batches. Unset: Spark inside each run's own process, on all cores, each "
            "task tried up to four times (`local[*,4]`)."
        ),
        examples=["spark://spark.example.com:7077"],
    )
    spark_secret: SecretStr | None = Field(
        default=None,
        description=(
            "The secret by which a standalone Spark cluster authenticates applications (its "
            "`spark.authenticate.secret`). With it, tasks, which carry passwords, are encrypted in transit. YARN and "
            "Kubernetes do not need it."
        ),
        examples=["a-long-random-text"],
    )
    spark_unencrypted: bool = Field(
        default=False,
        description=(
            "Whether tasks may go to other machines unencrypted. Without it, a run on a Spark master that does not "
            "authenticate and encrypt is refused before a task is sent."
        ),
        examples=["true"],
    )
    spark_remote: str | None = Field(
        default=None,
        description="Not supported, and refused when set: Spark Connect cannot run a batch. Use TIDEGATE_SPARK_MASTER.",
    )

    batch_timeout_seconds: float = Field(
        default=900.0,
        gt=0,
        allow_inf_nan=False,
        description=(
            "The time limit of a batch's Spark job. After it the job is cancelled, since a transform that never "
            "returns would block other pipelines. That counts as a failure of the batch, and ten failures halt the "
            "pipeline."
        ),
        examples=["3600"],
    )
    dagster_retention_days: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description=(
            "The number of days after which the nightly job `prune` removes Dagster's runs, with their events and "
            "output. The latest event of each asset and check stays. The retention of batches is set in each "
            "contract (`retention`)."
        ),
        examples=["90"],
    )

    @field_validator("home")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return home.expanduser().resolve()  # identifies the servers, so it must have one spelling

    @field_validator("contracts")
    @classmethod
    def _folder(cls, folder: Path | None) -> Path | None:
        if folder is not None and not folder.is_dir():
            raise ValueError(f"there is no folder {folder}")  # with a typo in it there would be no pipelines at all
        return folder and folder.resolve()

    @field_validator("postgres_url", "dagster_url")
    @classmethod
    def _libpq_uri(cls, url: str | None) -> str | None:
        if url is None:
            return None
        scheme, separator, rest = url.partition("://")
        # "postgresql+psycopg2" is SQLAlchemy's, "postgres" only libpq's: one form serves both.
        if not separator or scheme.split("+")[0] not in ("postgresql", "postgres"):
            raise ValueError("not a connection URI like postgresql://user:password@host:5432/database")
        if not is_readable(read := f"postgresql://{rest}"):
            raise ValueError(NOT_ENCODED)
        from platform_defs.settings.tls import refuse_unusable  # not every command opens a connection

        refuse_unusable(read)
        return read

    @field_validator("registry_url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        if url is not None and not all(_REGISTRY.fullmatch(one.strip()) for one in url.split(",")):
            raise ValueError(
                "not an address like https://registry.example.com:8081, or several separated by commas (it is not "
                "shown, since it may hold a password, in which each of : / ? # @ % and a comma is percent-encoded)"
            )
        return url

    @field_validator("spark_remote")
    @classmethod
    def _no_spark_connect(cls, remote: str | None) -> None:
        if remote is not None:  # docs/decisions/0006-no-spark-connect.md
            raise ValueError("Spark Connect cannot run a batch. Set TIDEGATE_SPARK_MASTER (spark://host:7077) instead")

    @property
    def contracts_folder(self) -> Path:
        """The folder with the contracts: the one given, or `assets/` of the nearest folder upwards that has some."""
        return self.contracts or contracts_upwards()

    @property
    def embeds_kafka(self) -> bool:
        """True if no broker was given, so that the embedded one is used."""
        return self.kafka_bootstrap_servers is None

    @property
    def embeds_postgres(self) -> bool:
        """True if no database was given, so that the embedded one is used."""
        return self.postgres_url is None

    @property
    def embeds_registry(self) -> bool:
        """True if no schema registry was given, so that the embedded one is used when one is needed."""
        return self.registry_url is None

    @property
    def kafka_advice(self) -> str:
        """The advice if Kafka does not answer: the setting of your own brokers, or the embedded stack."""
        return self._advice("KAFKA_BOOTSTRAP_SERVERS", embedded=self.embeds_kafka)

    @property
    def postgres_advice(self) -> str:
        """The advice if Postgres does not answer, or refuses the login."""
        other = f" and {PREFIX}DAGSTER_URL" if self.dagster_url else ""
        return self._advice(f"POSTGRES_URL{other}", embedded=self.embeds_postgres)

    @property
    def registry_advice(self) -> str:
        """The advice if the schema registry returns no usable response."""
        own = f"Check {PREFIX}REGISTRY_URL, and the user in it or in {REGISTRY_PREFIX}*"
        return EMBEDDED_ADVICE if self.embeds_registry else own

    def _advice(self, name: str, *, embedded: bool) -> str:
        # A Spark task on another machine has neither the variables nor the embedded stack's state.
        if embedded and (self.home / "stack.json").exists():
            return EMBEDDED_ADVICE
        return f"Check {PREFIX}{name}; `tidegate doctor` shows what is wrong"

    @property
    def librdkafka_options(self) -> dict[str, str]:
        """The librdkafka options that TIDEGATE_KAFKA_* give, without the addresses: {"security.protocol": "SSL"}."""
        options = variables.options(KAFKA_PREFIX)
        options.pop("bootstrap.servers", None)
        return options

    @property
    def registry_options(self) -> dict[str, str]:
        """The client options that TIDEGATE_REGISTRY_* give, without the address: {"ssl.ca.location": "ca.pem"}."""
        options = variables.options(REGISTRY_PREFIX)
        return {name: value for name, value in options.items() if name not in ("url", "name")}


@dataclass(frozen=True)
class Setting:
    """A variable that a user may set. `default` is formatted for a reader; None if there is none."""

    variable: str
    description: str
    default: str | None
    example: str | None


def _setting(name: str) -> Setting:
    field = Settings.model_fields[name]
    in_project = {
        "home": ".tidegate in the project's folder",
        "contracts": "`assets` of the nearest folder upwards that has contracts",
    }
    default = in_project.get(name, field.default)
    default = f"{default:g}" if isinstance(default, float) else default
    example = field.examples[0] if field.examples else None
    return Setting(PREFIX + name.upper(), field.description or "", default, example)


SETTINGS: tuple[Setting, ...] = (
    *map(_setting, Settings.model_fields),
    Setting(
        KAFKA_PREFIX + "*",
        "Any option of librdkafka's client configuration, in capitals and with underscores for dots: "
        "`security.protocol` is TIDEGATE_KAFKA_SECURITY_PROTOCOL. Applies to every Kafka client of Tidegate.",
        None,
        "TIDEGATE_KAFKA_SECURITY_PROTOCOL=SASL_SSL",
    ),
    Setting(
        REGISTRY_PREFIX + "*",
        "Any other option of confluent-kafka's registry client, written in the same way: `basic.auth.user.info` "
        "(user:password), `bearer.auth.*`, `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`. They are "
        "never shown.",
        None,
        "TIDEGATE_REGISTRY_BASIC_AUTH_USER_INFO=tidegate:secret",
    ),
    Setting(
        PREFIX + "*" + FILE,
        "The path of a file with the variable's value. Any variable above can be set this way, but not in both "
        "ways at once.",
        None,
        "TIDEGATE_KAFKA_SASL_PASSWORD_FILE=/run/secrets/kafka-password",
    ),
)


def settings() -> Settings:
    """Return the variables' current values. Raises BadInput, naming the variable, if one is invalid.

    Warns once per process about a TIDEGATE_* variable that is not a setting: with a typo in TIDEGATE_POSTGRES_URL the
    rows would go to the embedded database unnoticed. Also warns about an unencrypted connection to a database on
    another machine, unless it was chosen (sslmode=disable).
    """
    for name in unknown_variables():
        _warn(name)
    try:
        by_file = [name for name in variables.names() if os.environ.get(name + FILE)]
        files = {name.removeprefix(PREFIX).lower(): variables.value(name) for name in by_file}
        given: dict[str, Any] = {name: text for name, text in files.items() if text and name in Settings.model_fields}
        read = Settings(**given)
        for name in ("postgres_url", "dagster_url"):
            if (url := getattr(read, name)) is not None:
                _warn_unprotected(f"{PREFIX}{name.upper()}", url)
        return read
    except ValidationError as error:
        first = error.errors()[0]
        name = PREFIX + "_".join(str(part) for part in first["loc"]).upper()
        raise BadInput(first["msg"].removeprefix("Value error, "), field=name) from None  # it quotes what was given


def unknown_variables() -> list[str]:
    """Return the TIDEGATE_* variables in the environment that nothing reads."""
    known = {*INTERNAL, *(setting.variable for setting in SETTINGS), *variables.client_variables()}
    return [name if os.environ.get(name) else name + FILE for name in variables.names() if name not in known]


@cache
def _warn(name: str) -> None:
    settable = [*(setting.variable for setting in SETTINGS if "*" not in setting.variable)]
    close = difflib.get_close_matches(name.removesuffix(FILE), [*settable, *sorted(variables.client_variables())], 1)
    hint = f"did you mean {close[0]}?" if close else f"the settings are {', '.join(s.variable for s in SETTINGS)}"
    passed_on = name.startswith((KAFKA_PREFIX, REGISTRY_PREFIX))  # the client refuses it
    fate = "" if passed_on else " and is ignored"
    logging.getLogger("tidegate").warning("%s is not a setting of Tidegate%s; %s", name, fate, hint)


@cache
def _warn_unprotected(name: str, url: str) -> None:
    from platform_defs.settings.tls import address_of

    address = address_of(url)
    if address.unprotected is not None and address.sslmode != "disable":
        logging.getLogger("tidegate").warning("%s: %s", name, address.unprotected)
