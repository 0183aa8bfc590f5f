"""The embedded model's cache: a disk that fills up while it is made, and bytes that have changed since."""

import asyncio
import hashlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.embedded_model import FOLDER, MANIFEST, gguf_file, is_whole, ready
from tests.drills.calling import ask, call
from tests.drills.served import refused_start, served

pytestmark = [pytest.mark.prove, pytest.mark.engine, pytest.mark.timeout(600)]


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Path]:
    """A file system of its own, in memory."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def text_only(cache: Path) -> dict[str, str]:
    return {"cache_dir": str(cache), "voice.names": "[]", "conversation.max_reply_tokens": "8"}


def serves(cache: Path) -> str:
    """Start on this cache, hold a call; what was said on the way."""

    async def one(url: str) -> None:
        async with call(url) as bridge:
            assert (await ask(bridge, "hello")).text

    with served(text_only(cache)) as service:
        asyncio.run(one(service.voice_url))
        return service.said


def fill_once_it_is_being_made(cache: Path, filler: Path, stop: threading.Event) -> None:
    """Another program takes the space that was there when the work began."""
    while not list(cache.glob(f".{FOLDER}-*")) and not stop.wait(0.02):
        pass
    free = shutil.disk_usage(cache).free - 60 * 2**20
    with filler.open("wb") as file:
        for _ in range(free >> 20):
            file.write(bytes(1 << 20))


def test_a_disk_that_fills_up_is_told_in_one_line_and_a_start_with_room_serves(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 760) as cache:
        filler, stop = cache / "filler", threading.Event()
        other = threading.Thread(target=fill_once_it_is_being_made, args=(cache, filler, stop))
        other.start()
        line = refused_start(text_only(cache), tmp_path)
        stop.set()
        other.join()
        assert line.startswith("voicepace: embedded model: ")
        assert "No space left" in line or "os error 28" in line
        assert {path.name for path in cache.iterdir()} == {"filler", f".{FOLDER}.lock"}

        line = refused_start(text_only(cache), tmp_path)
        assert "MiB are needed" in line

        filler.unlink()
        assert "the embedded model is ready" in serves(cache)
        assert is_whole(cache / FOLDER, gguf_file())


def test_changed_bytes_are_found_by_their_checksum_and_the_model_is_made_again(
    tmp_path: Path, model_cache_dir: Path
) -> None:
    ready(model_cache_dir, print)  # makes it where it is not there yet
    shutil.copytree(model_cache_dir / FOLDER, tmp_path / FOLDER)
    weights = tmp_path / FOLDER / "model.safetensors"
    size = weights.stat().st_size
    with weights.open("r+b") as file:
        file.seek(size // 2)
        file.write(bytes(byte ^ 0xFF for byte in (tmp_path / FOLDER / "model.safetensors").read_bytes()[:64]))
    assert weights.stat().st_size == size
    assert not is_whole(tmp_path / FOLDER, gguf_file())
    said = serves(tmp_path)
    assert "preparing the embedded model" in said
    assert is_whole(tmp_path / FOLDER, gguf_file())
    stored = json.loads((tmp_path / FOLDER / MANIFEST).read_text())["files"]["model.safetensors"]
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == stored
    told: list[str] = []
    ready(tmp_path, told.append)
    assert told == []
