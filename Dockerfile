# Tidegate's Dagster web server, daemon and runs (compose.yaml). Bookworm: the newest Debian that has Java 17.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir uv \
    && useradd --create-home --uid 1000 tidegate \
    && install --directory --owner tidegate /app /var/lib/tidegate

USER tidegate
WORKDIR /app
ENV PATH=/app/.venv/bin:$PATH \
    DAGSTER_HOME=/app \
    DAGSTER_DISABLE_TELEMETRY=1 \
    TIDEGATE_HOME=/var/lib/tidegate

# What else is installed: --build-arg EXTRAS="--extra kubernetes" for runs as Jobs (docs/how-to/kubernetes.md).
ARG EXTRAS=""

# The packages first: a change of the project's own code does not install them again.
COPY --chown=tidegate pyproject.toml uv.lock README.md ./
RUN uv sync --frozen --no-dev --extra local ${EXTRAS} --no-install-project --no-cache
COPY --chown=tidegate . .
RUN uv sync --frozen --no-dev --extra local ${EXTRAS} --no-cache
