"""How many buckets would fit: a table of cases, and what the preview says of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import InvalidRequest
from ingest.lake.hudi.layout import FileGroup, Layout
from ingest.maintenance.buckets import suggest_buckets
from ingest.maintenance.facts import MB, Conflict, LakeFacts, Pending, in_buckets
from ingest.maintenance.resizing import Shape, plan_resize, words_for
from ingest.maintenance.rewinding import (
    MOST_COUNTED,
    Reach,
    what_is_missed,
    what_the_source_says,
)
from ingest.maintenance.score import score
from ingest.pipelines.policies.maintenance import MaintenancePolicy


def facts(
    buckets: int, files: int, megabytes: float, partitions: int = 1, **k: float
) -> LakeFacts:
    size = int(megabytes * MB)
    seen = LakeFacts("2026-01-01T00:00:00Z", partitions, files, files, size)
    return replace(seen, buckets=buckets, **k)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        # good sizes stay, whatever the target says
        (facts(4, 4, 4 * 128), None),
        (facts(4, 4, 4 * 64), None),
        (facts(4, 4, 4 * 256), None),
        (facts(1, 1, 3), None),
        # too large: as many as 128 MB each take
        (facts(4, 4, 4 * 300), 10),
        (facts(1, 1, 100_000), 782),
        (facts(1, 1, 10_000_000), 4096),
        # too small: never more than needed, at least one
        (facts(64, 64, 64), 1),
        (facts(64, 64, 640), 5),
        (facts(2, 2, 4), 1),
        # so many per partition
        (facts(8, 80, 800, 10), 1),
        (facts(1, 10, 10 * 512, 10), 4),
        # many small partitions: nothing to gain
        (facts(1, 500, 500, 500), None),
        # buckets that no key fell into have no file
        (facts(64, 2, 256), None),
        # skewed: of a size that fits, and odd
        (facts(4, 4, 4 * 128, skew=5.0), 5),
        (facts(5, 5, 5 * 128, skew=5.0), 7),
        (facts(4, 4, 70, skew=9.0), 1),
        (facts(4, 4, 20, skew=9.0), 1),
        # nothing is known
        (facts(0, 16, 16), None),
        (facts(4, 0, 0), None),
    ],
)
def test_a_number_is_suggested_with_its_reason(
    seen: LakeFacts, wanted: int | None
) -> None:
    fit = suggest_buckets(seen)
    assert (fit.buckets if fit else None) == wanted
    if fit is not None:
        assert f"{fit.buckets} bucket" in fit.reason
        # what was suggested is not suggested away again
        size = seen.base_bytes / (fit.buckets * seen.partitions)
        files = fit.buckets * seen.partitions
        after = replace(seen, buckets=fit.buckets, base_files=files, skew=1.0)
        assert suggest_buckets(after) is None, size


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (facts(32, 32, 32), ("small_files", "resize", 1)),
        (facts(4, 4, 512, skew=5.0), ("bucket_skew", "resize", 5)),
        (facts(1, 500, 500, 500), ("small_files", "", 0)),
        (
            replace(facts(1, 1, 9), foreign_index=("files",)),
            ("metadata_table", "drop-metadata-table", 0),
        ),
    ],
)
def test_a_lost_point_leads_to_the_number(
    seen: LakeFacts, told: tuple[str, str, int]
) -> None:
    (issue,) = score(seen, MaintenancePolicy()).issues
    assert (issue.code, issue.repair, issue.buckets) == told
    assert issue.to_json()["buckets"] == (told[2] or None)


@pytest.mark.parametrize(
    ("sizes", "buckets", "skew"),
    [
        ({}, 4, 1.0),
        ({0: 5, 1: 5}, 0, 1.0),
        ({0: 2, 1: 2, 2: 8}, 3, 4.0),
        # one of eight does all the work; three of them share it
        ({5: 64}, 8, 16.0),
        ({2: 8, 5: 8, 7: 8}, 8, 5.33),
        ({0: 8, 1: 8}, 4, 2.0),
        ({5: 64}, 1, 1.0),
    ],
)
def test_buckets_without_a_file_count(
    sizes: dict[int, int], buckets: int, skew: float
) -> None:
    groups = [FileGroup("", f"{b:08d}-0", base_bytes=size) for b, size in sizes.items()]
    facts = in_buckets(LakeFacts(at=""), Layout(tuple(groups)), buckets)
    assert facts.skew == skew
    count = max(buckets, max(sizes, default=-1) + 1)
    assert facts.bucket_bytes == tuple(sizes.get(b, 0) for b in range(count))


def test_a_preview_tells_before_and_after() -> None:
    plan = Pending("1", "compaction", "REQUESTED", 9.0, is_held=False, behind=0)
    seen = replace(facts(64, 128, 640, 2), log_bytes=5 * MB, pending=(plan,))
    found = plan_resize("shop.orders", seen, 3)
    assert found.before == Shape(64, 128, 5 * MB)
    assert (found.after.buckets, found.after.file_groups) == (3, 6)
    assert found.bytes == 645 * MB
    words = list(words_for(found, seen))
    assert "645 MB" in words[0]
    assert words[1].endswith("first: 1")
    assert "3 buckets instead of 64: at most 6 file groups instead of 128" in words[3]
    assert words[-1] == found.reason
    assert found.reason.startswith("Suggested, because: base files have 5 MB")
    assert "would be suggested" in plan_resize("shop.orders", seen, 2).reason


@pytest.mark.parametrize(
    ("buckets", "seen", "code"),
    [
        (0, facts(4, 4, 4), "invalid_request"),
        (5000, facts(4, 4, 4), "invalid_request"),
        (4, facts(4, 4, 4), "nothing_to_do"),
        (
            2,
            replace(facts(4, 4, 4), conflicts_total=1, conflicts=(Conflict("", 1),)),
            "has_duplicates",
        ),
    ],
)
def test_what_cannot_be_is_refused(buckets: int, seen: LakeFacts, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan_resize("shop.orders", seen, buckets)
    assert caught.value.code == code


def test_a_restore_says_what_it_cannot_bring_back() -> None:
    (only,) = what_is_missed(None, "")
    assert "follows nothing" in only
    (only,) = what_is_missed(None, "", follows_log=True)
    assert "log" in only
    told = " ".join(what_is_missed("at", "2026-01-01"))
    assert "whose at lies after 2026-01-01" in told
    assert "deleted at the source" in told
    assert "at all times" in what_is_missed("at", "")[0]


@pytest.mark.parametrize(
    ("reach", "reaches_back", "words"),
    [
        (Reach(), True, ["0 rows will be read again"]),
        (Reach(later=1, unmarked=3), True, ["1 row will", "3 rows there have no at"]),
        (Reach(later=MOST_COUNTED), True, ["100000 rows or more will"]),
        (Reach(broken="column at is gone"), False, ["Resync the table: the source"]),
        (Reach(silent="it is away"), None, ["could not be asked: it is away"]),
    ],
)
def test_a_restore_says_what_the_source_answered(
    reach: Reach, reaches_back: bool | None, words: list[str]
) -> None:
    told = what_the_source_says("at", reach)
    assert reach.reaches_back is reaches_back
    assert len(told) == len(words)
    assert all(word in line for word, line in zip(words, told, strict=True))
    assert what_the_source_says(None, reach) == ()
