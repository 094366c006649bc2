"""Options exclude each other if the installed librdkafka refuses them together, and only then."""

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_defs.producer_options.config import contradictions
from platform_defs.producer_options.options import OPTIONS, Option, Value
from platform_defs.producer_options.presets import PRESETS
from tests.support.kafka.librdkafka import refusal_of

LONGEST = 2**31 - 101  # librdkafka adds 100 to a limit of time, and its int overflows
ELSEWHERE = ("partitioner", "client.id", "compression.level")  # no part of any rule


def _values(option: Option) -> st.SearchStrategy[Value]:
    """Return values of an option near the limits that librdkafka compares with."""
    if option.choices:
        return st.sampled_from([*option.choices])
    if isinstance(option.default, bool):
        return st.booleans()
    if not option.highest:
        return st.just("an-id")
    near = (
        option.lowest,
        option.default,
        0,
        1,
        5,
        6,
        1_000,
        60_000,
        60_100,
        60_101,
        300_000,
        min(option.highest, LONGEST),
    )
    return st.sampled_from(sorted({n for n in near if isinstance(n, int) and option.lowest <= n <= option.highest}))


RULED = {name: _values(option) for name, option in OPTIONS.items() if name not in ELSEWHERE}
options = st.fixed_dictionaries({}, optional=RULED)


@settings(max_examples=300)
@given(st.sampled_from([preset.options for preset in PRESETS.values()]), options)
def test_options_are_refused_where_the_library_refuses_them_and_in_its_words(
    preset: dict[str, Value], given: dict[str, Value]
) -> None:
    found = next(contradictions({**preset, **given}), None)
    assert (found[1] if found else "") == refusal_of({**preset, **given})


def test_acks_1_contradicts_idempotence() -> None:
    found = next(contradictions({**PRESETS["asynchronous"].options, "acks": 1}), None)
    assert found == ("acks", "`acks` must be set to `all` when `enable.idempotence` is true")
