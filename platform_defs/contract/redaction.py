"""Messages about a record, a row or a failure, without their classified values (contract/model/classified.py).

Error texts of a reader, Postgres, Spark or a transform may quote any value. So none of them is passed on; the reason is
written again, from the error's class and from names. A class that is not known here gets a sentence that fits all.

An error that is made of such a text has one by names alone as well (`quoting` in errors/). `redacting` chooses between
them where an error leaves a system: a Spark job, a publication, a batch, a replay. Nothing in between decides. Decided
earlier, since several contracts count: what `verify` says of a transform, and what `tidegate peek` shows of a message.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from platform_defs.contract.model.classified import HIDDEN, NOT_SHOWN, Classified, classified, names_any
from platform_defs.contract.model.contract import CheckResult, Contract, Fault, Field
from platform_defs.contract.model.row_rules import wanted
from platform_defs.errors import InternalError, TidegateError, quoting
from platform_defs.errors.halts import (
    AccumulateRefused,
    BlockingCheckFailed,
    HaltDetail,
    KeepsFailing,
    TooManyDeadLetters,
    UnknownHalt,
)

# Of these classes, no reason quotes a message.
_QUOTES_NOTHING = {
    "EmptyValue",
    "MissingKey",
    "NullValue",
    "OtherRecord",
    "SchemaNotCompatible",
    "TooDeep",
    "TruncatedAvro",
    "UnknownSchemaId",
    "WrongSchemaType",
}
_WHAT = {
    "DuplicateKey": "has a key twice in one object: it is ambiguous which value is meant",
    "InvalidBase64": "is not base64",
    "InvalidDate": "is not a date",
    "InvalidEnum": "is a number that its enum does not name",
    "InvalidJson": "is not valid JSON",
    "InvalidProtobuf": "is not a Protobuf message of its schema",
    "InvalidTime": "is not a time of a day",
    "InvalidTimestamp": "is not a timestamp of the contract's type",
    "InvalidUnicode": "holds half a surrogate pair, which is not a character",
    "InvalidUtf8": "is not UTF-8",
    "InvalidUuid": "is not a uuid",
    "InvalidVarint": "holds a number of more than 64 bits",
    "NotAnObject": "is valid JSON but not an object",
    "NotFinite": "holds a number that is not finite",
    "NotFramed": "does not name a schema as the contract says",
    "NulCharacter": "holds a NUL character, which Postgres cannot store",
    "NullItem": "has a null item",
    "OutOfRange": "is out of the range of its type",
    "TooLarge": "is larger than its type allows",
    "TooManyDecimals": "has more decimals than its type keeps, and nothing is rounded",
    "TooManyItems": "has more items than an array may have",
    "UnknownMessageIndex": "does not begin with the indexes of a message of its schema",
    "WrongType": "is of another type than the contract requires",
}
INSTEAD = "(classified, so not shown here: tidegate dlq show --values)"


def redacted(contract: Contract, faults: Sequence[Fault]) -> Sequence[Fault]:
    """Return the faults of stages `decode` and `check` as they may be stored and shown."""
    hidden = classified(contract) if faults else None
    if hidden is None or not hidden.any:
        return faults
    fields = {item.name: item for item in contract.message_fields}
    return [_redacted(contract, fault, fields, hidden) for fault in faults]


def _redacted(contract: Contract, fault: Fault, fields: dict[str, Field], hidden: Classified) -> Fault:
    if fault.stage not in ("decode", "check") or fault.error_class in _QUOTES_NOTHING:
        return fault
    field = fields.get(fault.field or "")
    if field is not None and field.name not in hidden.fields:
        # The reason may quote the field's neighbours: the value in place of the object around it.
        quotes_others = len(field.path) > 1 and not field.source and fault.error_class == "WrongType"
        if not quotes_others:
            return fault
    subject = "the message's key" if fault.field == "_key" else field.place if field else "the message"
    return replace(fault, message=f"{subject} {_reason(contract, fault, field)} {INSTEAD}")


def _reason(contract: Contract, fault: Fault, field: Field | None) -> str:
    rule = next((rule for rule in contract.row_rules if rule.name == fault.error_class), None)
    if fault.stage == "check" and rule is not None:
        return f"breaks {rule.name}: the contract requires {wanted(rule)}"
    of = f" ({field.type.name})" if field else ""
    return f"{_WHAT.get(fault.error_class, 'cannot be read')}{of}"


def stored_reason(contract: Contract, stage: str, error_class: str, message: str, field: str | None) -> str:
    """Return a dead letter's explanation as the current contract allows it to be shown: it may have been stored before
    a field was classified.
    """
    if not classified(contract).any:
        return message
    if stage == "decode" or stage == "check":
        (found,) = redacted(contract, [Fault(0, stage, error_class, message, field)])
        return found.message
    return message if message.rstrip(")").endswith(NOT_SHOWN) else f"{error_class or 'the reason'} {INSTEAD}"


def stored_halt(contract: Contract, detail: HaltDetail) -> HaltDetail:
    """Return the detail of a halt, or of checks that fail, as the current contract allows it to be shown."""
    hidden = classified(contract)
    if not hidden.any:
        return detail
    if isinstance(detail, TooManyDeadLetters):
        return replace(detail, samples=tuple(_stored_sample(contract, sample) for sample in detail.samples))
    if isinstance(detail, BlockingCheckFailed):
        return replace(detail, checks=tuple(_stored_check(contract, hidden, check) for check in detail.checks))
    if isinstance(detail, AccumulateRefused | KeepsFailing) and not detail.quotes_nothing:
        return replace(detail, error=f"it {NOT_SHOWN}; it is in tidegate.pipeline.halt_detail")
    return UnknownHalt(detail.code) if isinstance(detail, UnknownHalt) else detail


def stored_checks(contract: Contract, checks: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Return a batch's check results in the ledger as the current contract allows them to be shown."""
    hidden = classified(contract)
    if not hidden.any:
        return tuple(checks)
    found = ((check, {"check": check.name, "table": check.table, "observed": check.observed}) for check in checks)
    return tuple(
        replace(check, observed=_stored_check(contract, hidden, stored)["observed"]) for check, stored in found
    )


def stored_error(contract: Contract, error: str | None, hides: Collection[str] | None) -> str | None:
    """Return the error of a pipeline's last run as the current contract allows it to be shown. `hides`: the names that
    were classified when it was recorded; '*' for all.
    """
    names = classified(contract).names
    if error is None or not names or (hides is not None and ("*" in hides or names.issubset(hides))):
        return error
    return f"the error {NOT_SHOWN}; see tidegate.pipeline.last_error"


def _stored_sample(contract: Contract, sample: Mapping[str, Any], rule: str = "") -> Mapping[str, Any]:
    """Return a sample as it may be shown. `rule`: the row rule that the message breaks, if the sample does not name it.
    A sample of a batch rule is a place; older versions also recorded the column's value.
    """
    if "message" not in sample:
        return {name: sample[name] for name in ("partition", "offset") if name in sample}
    stage, error_class = sample.get("stage", "check" if rule else ""), sample.get("error_class", rule)
    message = stored_reason(contract, stage, error_class, str(sample.get("message")), sample.get("field"))
    return {**sample, "message": message}


def _stored_check(contract: Contract, hidden: Classified, check: Mapping[str, Any]) -> Mapping[str, Any]:
    observed: Mapping[str, Any] = check.get("observed") or {}
    rules = {rule.name for rule in contract.row_rules}
    rule = check["check"] if check["check"] in rules else ""
    samples: Sequence[Mapping[str, Any]] = observed.get("samples") or ()
    shown = {**observed, **({"samples": [_stored_sample(contract, item, rule) for item in samples]} if samples else {})}
    if "observed_value" in shown:
        known = {(table.name, rule.name): (table, rule) for table in contract.tables for rule in table.batch_rules}
        found = known.get((str(check.get("table")), str(check["check"])))
        if found is None or names_any(found[1], hidden.of_table(found[0])):
            shown["observed_value"] = HIDDEN
    return {**check, "observed": shown}


@contextmanager
def redacting(contract: Contract | None, bug: Callable[[str], InternalError] | None = None) -> Generator[None]:
    """Raise the block's errors as they may be stored, logged and shown: if the contract classifies anything, by names
    alone (`quoting_nothing`). Without a contract, older ones may classify what the current one does not: then our own
    errors have no causes, since the block decides on their texts, and a bug is by names alone.

    `bug` returns the error for an unexpected exception, from a text. Without it, such an exception is not caught.
    """
    try:
        yield
        return
    except TidegateError as error:
        ours = error.without_causes() if contract is None else error
        names = contract is not None and classified(contract).any
    except Exception as error:
        if bug is None:
            raise
        ours = unexpected(bug, error)
        names = contract is None or classified(contract).any
    raise ours.quoting_nothing() if names else ours


def unexpected(bug: Callable[[str], InternalError], error: Exception) -> TidegateError:
    """Return the error for an unexpected exception. Its text may quote values; the line that raised it does not."""
    frame, place = error.__traceback__, type(error).__name__
    while frame is not None:
        place = f"{type(error).__name__} at {frame.tb_frame.f_code.co_filename}, line {frame.tb_lineno}"
        frame = frame.tb_next
    ours = quoting(bug, f"{place}: {error}", place)
    ours.__cause__ = error
    return ours
