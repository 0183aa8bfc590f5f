"""Counts that one process writes and another reads."""

from pathlib import Path

from engine.tree.stopwatch import timed
from engine.tree.tally import MAX_DEPTH, Tally


def test_a_reader_sees_what_the_writer_counts(tmp_path: Path) -> None:
    writer = Tally(tmp_path / "tally", writing=True)
    reader = Tally(tmp_path / "tally")
    assert set(reader.read().values()) == {0.0}
    writer.count_tree(16, 3, side_path=True)
    writer.count_tree(8, 0, side_path=False)
    writer.count_tree(64, MAX_DEPTH + 4, side_path=False)
    writer.set("size", 8)
    seen = {name: value for name, value in reader.read().items() if value}
    assert seen == {"trees": 3, "nodes": 88, "tokens": 26, "side_paths": 1, "size": 8} | {
        "depth_0": 1,
        "depth_3": 1,
        f"depth_{MAX_DEPTH}": 1,
    }


def test_a_new_writer_starts_from_zero(tmp_path: Path) -> None:
    Tally(tmp_path / "tally", writing=True).add("trees")
    assert set(Tally(tmp_path / "tally", writing=True).read().values()) == {0.0}


def test_time_is_counted_also_where_the_work_fails(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "tally", writing=True)
    try:
        with timed(tally, "draft_s"):
            raise KeyError
    except KeyError:
        pass
    assert tally.read()["draft_s"] > 0
