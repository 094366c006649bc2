"""Reading an option of a producer as written in a contract, a variable or on the command line."""

from difflib import get_close_matches

from platform_defs.errors import BadInput
from platform_defs.producer_options.java_names import java_answer
from platform_defs.producer_options.options import OPTIONS, Option, Value, own_name
from platform_defs.producer_options.partitioners import WORDS, one_partition


def read_option(name: object, value: object) -> tuple[str, Value]:
    """Return Tidegate's name for the option, and its value. Raises BadInput, whose field is the name as written."""
    option = OPTIONS.get(own_name(str(name)))
    if option is None and (answer := java_answer(str(name), value)) is not None:
        raise BadInput(answer, field=str(name))
    if option is None:
        close = get_close_matches(str(name), OPTIONS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"the options are {', '.join(OPTIONS)}"
        raise BadInput(f"{name} is not a producer option; {hint}", field=str(name))
    found = _read(option, value)
    if found is None:
        raise BadInput(f"{name} must be {_wanted(option)}, not {value!r}", field=str(name))
    return option.name, found


def _read(option: Option, value: object) -> Value | None:
    """Return the value; None if it is not valid for the option."""
    if option.name == "partitioner":
        known = str(value) in {*WORDS, *option.choices} or one_partition(str(value)) is not None
        return str(value) if known else None
    if option.choices:
        text = "all" if option.name == "acks" and str(value) == "-1" else str(value)
        if text not in option.choices:
            return None
        return int(text) if text.isdigit() else text
    if isinstance(option.default, bool):
        return {"true": True, "false": False}.get(str(value).lower())
    if option.highest:
        try:
            number = int(str(value))
        except ValueError:
            return None
        return number if option.lowest <= number <= option.highest else None
    return value if isinstance(value, str) and value else None


def _wanted(option: Option) -> str:
    if option.name == "partitioner":
        return f"one of {', '.join(WORDS)}, partition=N, {option.values}"
    if option.choices or isinstance(option.default, bool):
        return f"one of {option.values}"
    return f"a whole number from {option.values}" if option.highest else "text"
