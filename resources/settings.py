"""Where the outside systems are: from TIDEGATE_* variables, else from the embedded stack.

With TIDEGATE_POSTGRES_URL and TIDEGATE_KAFKA_BOOTSTRAP_SERVERS both set, nothing embedded is ever started; with one of
them, only the other is. TIDEGATE_KAFKA_* gives any librdkafka option, dots as underscores.
"""

import os
from pathlib import Path

from pydantic import ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from platform_defs.errors import BadInput

PREFIX = "TIDEGATE_"
KAFKA_PREFIX = PREFIX + "KAFKA_"


def _project_root() -> Path:
    installed = Path(__file__).resolve().parent.parent
    return installed if (installed / "pyproject.toml").exists() else Path.cwd()


PROJECT_ROOT = _project_root()


class Settings(BaseSettings):
    """The TIDEGATE_* variables. An empty one counts as unset."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore")

    home: Path = PROJECT_ROOT / ".tidegate"
    postgres_url: str | None = None
    kafka_bootstrap_servers: str | None = None
    spark_master: str | None = None
    spark_remote: str | None = None

    @field_validator("home")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return home.expanduser().resolve()  # servers are recognised by it, so it must have one spelling

    @field_validator("postgres_url")
    @classmethod
    def _libpq_uri(cls, url: str | None) -> str | None:
        if url is None:
            return None
        scheme, separator, rest = url.partition("://")
        # "postgresql+psycopg2" is SQLAlchemy's, "postgres" is libpq's alone: one form serves both.
        if not separator or scheme.split("+")[0] not in ("postgresql", "postgres"):
            raise ValueError("not a connection URI like postgresql://user:password@host:5432/database")
        return f"postgresql://{rest}"

    @field_validator("spark_remote")
    @classmethod
    def _no_spark_connect(cls, remote: str | None) -> None:
        if remote is not None:  # docs/decisions/0006-no-spark-connect.md
            raise ValueError("Spark Connect cannot run a batch. Set TIDEGATE_SPARK_MASTER (spark://host:7077) instead")

    @property
    def embeds_kafka(self) -> bool:
        """True where no broker was given, so that the embedded one is used."""
        return self.kafka_bootstrap_servers is None

    @property
    def embeds_postgres(self) -> bool:
        """True where no database was given, so that the embedded one is used."""
        return self.postgres_url is None

    @property
    def kafka_options(self) -> dict[str, str]:
        """The librdkafka options that TIDEGATE_KAFKA_* give, but for the addresses: {"security.protocol": "SSL"}."""
        given = {name: value for name, value in os.environ.items() if name.startswith(KAFKA_PREFIX) and value}
        options = {name.removeprefix(KAFKA_PREFIX).lower().replace("_", "."): given[name] for name in given}
        options.pop("bootstrap.servers", None)
        return options


def settings() -> Settings:
    """Read the variables anew. Raises BadInput, naming the variable, where one cannot be used."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = PREFIX + "_".join(str(part) for part in first["loc"]).upper()
        raise BadInput(first["msg"], field=name) from error
