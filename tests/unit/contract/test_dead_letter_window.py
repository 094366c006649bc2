"""The latest messages of a pipeline, counted across batches."""

from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Limits
from platform_defs.contract.model.dead_letter_window import NONE_YET, SLOTS, Counted, Recent

batches = st.lists(
    st.integers(1, 60).flatmap(lambda n: st.builds(Counted, st.just(n), st.integers(0, n))), min_size=1, max_size=80
)


def after(counted: list[Counted], size: float) -> Recent:
    recent = NONE_YET
    for batch in counted:
        recent = recent.plus(batch, size)
    return recent


@given(batches, st.integers(1, 200))
def test_as_many_messages_are_kept_as_are_judged_and_hardly_more(counted: list[Counted], size: int) -> None:
    kept, everything = sum(slot.messages for slot in after(counted, size).slots), sum(b.messages for b in counted)
    largest = max(batch.messages for batch in counted) + size / SLOTS
    assert min(size, everything) <= kept <= size + largest
    assert len(after(counted, size).slots) <= 2 * SLOTS + 2


@given(batches, st.integers(1, 200))
def test_so_many_of_the_latest_are_dead_letters_as_there_are_in_the_newest_batches(
    counted: list[Counted], size: int
) -> None:
    """Exact except in the oldest slot, whose dead letters are taken to be spread evenly."""
    recent = after(counted, size)
    latest, oldest = recent.latest(size), recent.slots[0]
    whole = sum(recent.slots, Counted())
    assert whole.dead_letters - oldest.dead_letters <= latest.dead_letters <= whole.dead_letters
    newest = list(reversed(counted))
    summed = [sum(newest[:n], Counted()) for n in range(len(newest) + 1)]
    assert whole in summed, "slots hold whole batches, the newest ones"


@given(batches, st.integers(1, 200))
def test_a_ledger_gives_back_what_it_was_given(counted: list[Counted], size: int) -> None:
    recent = after(counted, size)
    assert Recent.from_json(recent.to_json()) == recent


@given(st.integers(1, 50), st.integers(1, 400), st.sampled_from([0.1, 0.5, 0.9]), st.integers(0, 3000))
def test_garbage_halts_soon_after_the_minimum_however_small_its_batches_and_long_the_good_time_before(
    small: int, minimum: int, share: float, good: int
) -> None:
    limits = Limits(dead_letter_minimum=minimum, dead_letter_share=share)
    recent = NONE_YET.plus(Counted(good), limits.window_messages) if good else NONE_YET
    sent = 0
    while not limits.exceeded_by(recent.latest(limits.window_messages)):
        recent, sent = recent.plus(Counted(small, small), limits.window_messages), sent + small
        assert sent <= minimum + 2 * small + 1


@given(st.integers(1, 50))
def test_a_bad_hour_is_forgotten_once_as_many_good_messages_as_are_judged_have_come(small: int) -> None:
    limits = Limits(dead_letter_minimum=100, dead_letter_share=0.5)
    recent = NONE_YET.plus(Counted(100, 99), limits.window_messages)
    for _ in range(-(-200 // small) + 1):
        recent = recent.plus(Counted(small), limits.window_messages)
    assert recent.latest(limits.window_messages).dead_letters == 0
