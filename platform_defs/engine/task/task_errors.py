"""Carries an error of ours from a Spark task to the driver: as data, never as text to be interpreted.

For a failed task, Spark returns only text, which may quote a message. An error of our own functions is therefore put
into an envelope: JSON between two copies of the job's nonce, a random number that no message can know. Errors without
one were raised by the transform or by Spark.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from platform_defs.contract.redaction import unexpected
from platform_defs.errors import InternalError, TidegateError, from_json


class TaskError(Exception):
    """An error of ours in its envelope, as Spark sees it."""


class UpstreamFailed(Exception):
    """The input of a function of ours failed (the transform, say): Spark knows why, and reports that instead."""


def to_envelope(error: Exception, nonce: str, *, hides: bool = False) -> TaskError:
    """Return `error` for the driver; with `hides`, by names alone. A foreign error becomes an InternalError: our
    functions expect nothing else.
    """
    bug = partial(InternalError.of, "a Spark task")
    ours = error if isinstance(error, TidegateError) else unexpected(bug, error)
    ours = ours.quoting_nothing() if hides else ours
    written = json.dumps(ours.to_json(), default=str).encode()
    return TaskError(f"{type(ours).__name__}: {ours} {nonce}{b64encode(written).decode()}{nonce}")


def from_envelope(text: str, nonce: str) -> TidegateError | None:
    """Return the error of ours in Spark's text for a failed job, or None if there is none."""
    found = re.search(f"{re.escape(nonce)}([A-Za-z0-9+/=]+){re.escape(nonce)}", text)
    return from_json(json.loads(b64decode(found[1]))) if found else None


def upstream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield from `batches`; what they raise is not ours."""
    try:
        yield from batches
    except Exception as error:
        raise UpstreamFailed(str(error)) from error
