"""What every storage of a lake does alike: the promises of `ingest.lake.port`."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from core.errors import StaleState
from ingest.lake.place import place_at
from ingest.lake.port import StoredFile, bytes_below


def together(work: Callable[[int], None], count: int = 16) -> None:
    crew = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()


def test_only_one_of_many_creates(lake: str) -> None:
    place = place_at(lake) / "deep" / "seal"
    won: list[int] = []

    def create(number: int) -> None:
        if place.create(str(number)):
            won.append(number)

    together(create)
    assert place.read() == str(won[0]).encode()
    assert len(won) == 1
    assert (place_at(lake) / "deep").names() == ["seal"]


def test_every_update_counts(lake: str) -> None:
    place = place_at(lake) / "counter"

    def add(number: int) -> None:
        place.update(lambda text: str(int(text or 0) + 1))

    together(add, 8)
    assert place.read() == b"8"


def test_an_update_may_leave_or_refuse(lake: str) -> None:
    place = place_at(lake) / "a"
    place.update(lambda text: None)
    assert place.read() is None

    def refuse(text: str | None) -> str | None:
        raise StaleState("no", code="fenced")

    with pytest.raises(StaleState):
        place.update(refuse)
    assert place.read() is None


def test_replacing_leaves_no_scratch(lake: str) -> None:
    place = place_at(lake) / "a"
    place.replace("1")
    place.replace("zwei ü")
    assert place.read() == "zwei ü".encode()
    assert place_at(lake).names() == ["a"]


def test_what_lies_below(lake: str) -> None:
    root = place_at(lake) / "t"
    odd = ".x y+ü%41&<1>"
    for path in ("one", "sub/two", f"sub/deep/{odd}"):
        place = root
        for name in path.split("/"):
            place = place / name
        place.replace("12345")
    assert sorted(root.names()) == ["one", "sub"]
    assert sorted(root.files(), key=lambda f: f.path) == [
        StoredFile("one", 5),
        StoredFile(f"sub/deep/{odd}", 5),
        StoredFile("sub/two", 5),
    ]
    assert bytes_below(root) == 15
    assert (root / "sub" / "deep" / odd).read() == b"12345"
    assert all(p.exists() for p in (root, root / "sub", root / "one"))
    (root / "one").delete()
    (root / "one").delete()
    (root / "sub").delete_all()
    (root / "sub").delete_all()
    assert not any(p.exists() for p in (root / "sub", root / "one"))


def test_a_folder_may_be_left_out(lake: str) -> None:
    root = place_at(lake) / "t"
    for name in ("meta", "data"):
        (root / name / "meta" / "a").replace("1")
    (root / "metadata").replace("1")
    found = {file.path for file in root.files(leave_out="meta")}
    assert found == {"data/meta/a", "metadata"}


def test_a_listing_starts_at_a_folder(lake: str) -> None:
    root = place_at(lake) / "t"
    folders = ("p=1", "p=1/deep", "p=1-2", "p=10", "p=2", "q", ".x")
    for name in (*folders, "meta"):
        (root / name / "a").replace("1")
    (root / "z").replace("1")
    for start, expected in (
        ("p=1", "p=1/a p=1/deep/a p=10/a p=2/a q/a"),
        ("p=1/deep", "p=1/deep/a p=10/a p=2/a q/a"),
        ("p=11", "p=2/a q/a"),
        ("r", ""),
    ):
        found = [file.path for file in root.files(leave_out="meta", start=start)]
        # a store tells the root's own where their names sort
        assert [path for path in found if "/" in path] == expected.split()


def test_files_that_go_meanwhile_end_no_listing(lake: str) -> None:
    root = place_at(lake) / "t"
    for name in ("a", "b", "c"):
        (root / name).replace("1")
        (root / "sub" / name).replace("1")
    listing = root.files()
    next(listing)
    root.delete_all()
    assert len(list(listing)) < 6


def test_neighbours_whose_names_begin_alike_stay(lake: str) -> None:
    root = place_at(lake)
    (root / "t" / "a").replace("1")
    (root / "t2" / "a").replace("1")
    assert [f.path for f in (root / "t").files()] == ["a"]
    (root / "t").delete_all()
    assert (root / "t2" / "a").read() == b"1"


def test_parts_of_a_file_are_read_alone(lake: str) -> None:
    place = place_at(lake) / "a"
    body = bytes(range(256)) * 4
    assert place.create(body)
    assert place.read() == body
    assert place.read_part(10, 5) == body[10:15]
    assert place.read_part(1020, 100) == body[1020:]
    assert place.read_part(-16, 16) == body[-16:]
    assert place.read_part(-16, 4) == body[-16:-12]
    assert place.read_part(-5000, 5000) == body
    assert place.read_part(5000, 5) == b""
    assert place.read_part(3, 0) == b""
    assert (place_at(lake) / "none").read_part(-16, 16) is None
    assert (place_at(lake) / "none").read_part(0, 0) is None


def test_absent_places(lake: str) -> None:
    place = place_at(lake) / "none"
    assert place.read() is None
    assert place.names() == []
    assert list(place.files()) == []
    assert not place.exists()
    place.delete()
    place.delete_all()
    assert place.delete_page(1) == (0, True)


def test_deleting_by_pages(lake: str) -> None:
    root = place_at(lake) / "t"
    for number in range(5):
        (root / "p" / str(number)).replace("1")
    deleted = 0
    for _ in range(10):
        count, is_gone = root.delete_page(0.0)
        deleted += count
        if is_gone:
            break
    assert deleted == 5
    assert not root.exists()


def test_free_space(lake: str) -> None:
    free = (place_at(lake) / "not" / "yet").free_bytes()
    assert (free is None) == lake.startswith("s3://")
