"""What trees rely on inside vLLM. A failure here after an upgrade names the hook that has changed.

Read what vLLM has changed there, adapt `engine/tree`, run the proofs (`make prove`), and only then take the new hash
(`python -m engine.tree.hooks`).
"""

import pytest

from engine.tree.hooks import CPU_HOOKS, GPU_HOOKS, HOOKS, MARK, TreeUnfit, check_hooks, source_hash

EVERY = {**HOOKS, **CPU_HOOKS, **GPU_HOOKS}


@pytest.mark.parametrize("hook", EVERY)
def test_a_hook_is_what_trees_were_written_for(hook: str) -> None:
    assert source_hash(hook) == EVERY[hook]


def test_what_is_installed_fits() -> None:
    check_hooks(CPU_HOOKS)


def test_a_changed_hook_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.sample.rejection_sampler import RejectionSampler

    hook = "vllm.v1.sample.rejection_sampler:RejectionSampler.parse_output"
    monkeypatch.setattr(RejectionSampler, "parse_output", lambda tokens: tokens)
    with pytest.raises(TreeUnfit, match=f"^{MARK} {hook}: is not what it was"):
        check_hooks(CPU_HOOKS)
    monkeypatch.delattr(RejectionSampler, "parse_output")
    with pytest.raises(TreeUnfit, match=f"{hook}: is no longer there"):
        check_hooks(CPU_HOOKS)


def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.33.0")
    with pytest.raises(TreeUnfit, match=r"vllm: is version 0\.33\.0, trees were written for 0\.32\.0"):
        check_hooks(CPU_HOOKS)
