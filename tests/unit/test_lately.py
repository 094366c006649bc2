"""What a process notes of registries has an end."""

from resources.registry.lately import Lately


def test_lately_forgets() -> None:
    lately = Lately()
    lately.note("a")
    assert lately.has("a")
    assert not lately.has("b")
    for number in range(5_000):
        lately.note(number)
    assert lately.has(4_999)
    assert len(lately._at) <= 1_000
