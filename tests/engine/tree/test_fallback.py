"""What runs instead where trees cannot be used."""

from pathlib import Path

import pytest

from engine.api import EngineStartError
from engine.launch import Launcher
from engine.options import EngineOptions
from engine.tree.fallback import Fallback, is_unfit, reason_of, without_trees
from engine.tree.hooks import TreeUnfit

UNFIT = f"engine: {TreeUnfit('cache layout', 'pages are laid out in another way')}"


def options(**changes: object) -> EngineOptions:
    return EngineOptions.model_validate({"speculation": "medusa_tree", "heads": "oracle:x"} | changes)


def test_a_message_says_that_and_why_trees_cannot_be_used() -> None:
    assert is_unfit(UNFIT)
    assert reason_of(UNFIT) == "cache layout: pages are laid out in another way"
    assert not is_unfit("engine: 3.0 GiB are needed")


def test_without_heads_for_a_chain_it_is_plain_decoding() -> None:
    plain = without_trees(options(tree="8"))
    assert (plain.speculation, plain.heads, plain.tree) == ("none", None, None)
    assert EngineOptions.model_validate(plain.model_dump()) == plain


def test_with_heads_for_a_chain_it_is_the_chain(tmp_path: Path) -> None:
    (tmp_path / "medusa.safetensors").touch()
    chain = without_trees(options().model_copy(update={"heads": str(tmp_path)}))
    assert (chain.speculation, chain.heads) == ("medusa", str(tmp_path))


async def launched(launcher: Launcher, faults: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    tried = []

    def build(self: Launcher, chosen: EngineOptions) -> str:
        tried.append(chosen.speculation)
        if chosen.speculation in faults:
            raise EngineStartError(faults[chosen.speculation])
        return "engine"

    monkeypatch.setattr(Launcher, "_build_with", build)
    assert await launcher.launch() == "engine"
    return tried


@pytest.mark.anyio
async def test_the_engine_starts_without_trees_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    launcher = Launcher(options(), tmp_path, lambda line: None)
    assert await launched(launcher, {"medusa_tree": UNFIT}, monkeypatch) == ["medusa_tree", "none"]
    assert launcher.fallback == Fallback("none", "cache layout: pages are laid out in another way")
    assert launcher.in_use.speculation == "none"
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "cache layout" in record.message
    # The next start tries trees again.
    assert await launched(launcher, {}, monkeypatch) == ["medusa_tree"]
    assert launcher.fallback is None
    assert launcher.in_use.speculation == "medusa_tree"


@pytest.mark.anyio
async def test_what_is_wrong_with_the_settings_is_no_reason_to_go_on_without_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Launcher(options(), tmp_path, lambda line: None)
    with pytest.raises(EngineStartError, match="heads: x does not exist"):
        await launched(launcher, {"medusa_tree": "engine: heads: x does not exist"}, monkeypatch)
