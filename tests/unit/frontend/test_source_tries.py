"""Who may test a source of the form while others do."""

from __future__ import annotations

from contextlib import ExitStack

from frontend.views import source_forms


def test_one_user_leaves_a_place_for_a_test_to_the_others() -> None:
    """A source that accepts and stays silent holds its place until the time-outs."""
    with ExitStack() as held:
        for _ in range(source_forms.MOST_TRIED_OF_ONE):
            place = source_forms._tried.take("ann")
            assert place
            held.enter_context(place)
        assert source_forms._tried.take("ann") is None
        other = source_forms._tried.take("bob")
        assert other
        held.enter_context(other)
