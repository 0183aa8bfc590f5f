import json
from pathlib import Path

import pytest

from engine import embedded_model
from engine.api import EngineStartError
from engine.bench import published, published_host
from engine.bench.published_host import cut_draft_model
from tests.engine.bench.published_host import flags


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    monkeypatch.setattr(embedded_model, "ready", lambda cache_dir, progress: folder)
    return folder


def test_the_draft_model_is_cut_once(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[tuple[Path, int]] = []

    def cut(source: Path, folder: Path, layers: int) -> None:
        cuts.append((source, layers))
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(published_host, "_cut", cut)
    for _ in range(2):
        assert cut_draft_model(tmp_path, 6, print) == tmp_path / "model-first-6"
    assert cuts == [(checkpoint, 6)]
    assert (tmp_path / "model-first-6" / "config.json").exists()
    assert cut_draft_model(tmp_path, 3, print) == tmp_path / "model-first-3"


@pytest.mark.prove
def test_a_cut_that_fails_leaves_nothing_and_says_why(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(
        '#!/bin/sh\necho "$@" > "$5/arguments"\necho warning >&2\necho "ValueError: layers: 99" >&2\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(published_host.sys, "executable", str(program))
    with pytest.raises(EngineStartError, match="^draft model: ValueError: layers: 99$"):
        cut_draft_model(tmp_path, 99, lambda line: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "python"]


def test_without_the_embedded_model_only_the_draft_arm_falls_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def ready(cache_dir: Path, progress: object) -> Path:
        raise EngineStartError("embedded model: not here")

    monkeypatch.setattr(embedded_model, "ready", ready)
    args = flags()
    assets, missing = published._assets(args, published.base_settings("cpu-demo", {}), ["none", "draft_model"])
    assert missing == {"draft_model": "embedded model: not here"}
    assert assets.draft_model is None


def test_a_profiles_heads_belong_to_its_model() -> None:
    args = flags("--profile", "l4-llama3-8b")
    settings = published.base_settings("l4-llama3-8b", {})
    assert published._assets(args, settings, ["medusa"])[0].medusa_heads == "./heads/llama-3-8b-instruct"
    other = flags("--profile", "l4-llama3-8b", "--model", "owner/name")
    assert published._assets(other, {**settings, "model": "owner/name"}, ["medusa"])[0].medusa_heads is None


@pytest.mark.engine
def test_the_first_layers_of_the_embedded_model_are_a_model(model_cache_dir: Path, tmp_path: Path) -> None:
    checkpoint = embedded_model.ready(model_cache_dir, print)
    published_host._cut(checkpoint, tmp_path, 2)
    whole, cut = (json.loads((folder / "config.json").read_text()) for folder in (checkpoint, tmp_path))
    assert cut["num_hidden_layers"] == 2
    assert cut["vocab_size"] == whole["vocab_size"]
    names = {"tokenizer.json", "model.safetensors"}
    assert names <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "model.safetensors").stat().st_size < (checkpoint / "model.safetensors").stat().st_size / 2
