"""What a replica tells Prometheus while it lives, and what is left once it does not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from deploy.ray_metrics import clear, own_target


def test_a_replica_is_scraped_where_its_file_says(tmp_path: Path) -> None:
    with own_target(lambda: b"voicepace_calls 3\n", tmp_path / "targets", "127.0.0.1"):
        (file,) = (tmp_path / "targets").iterdir()
        (entry,) = json.loads(file.read_text())
        assert entry["labels"] == {"replica": str(os.getpid())}
        (target,) = entry["targets"]
        with urlopen(f"http://{target}/metrics", timeout=10) as answer:
            assert answer.read() == b"voicepace_calls 3\n"
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://{target}/", timeout=10)
    assert list((tmp_path / "targets").iterdir()) == []


def test_what_a_killed_replica_left_goes_and_what_lives_stays(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for name in (f"voicepace-{gone.pid}", f"voicepace-{os.getpid()}", "voicepace-other", "somebody-1"):
        (tmp_path / f"{name}.json").write_text("[]")
    clear(tmp_path)
    assert {file.stem for file in tmp_path.iterdir()} == {f"voicepace-{os.getpid()}", "somebody-1"}
