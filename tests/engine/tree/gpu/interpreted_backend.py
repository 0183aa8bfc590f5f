"""Run by `test_kernels.py` under Triton's interpreter: vLLM's classes for a GPU, as far as there need be no GPU."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.attention.backends.triton_attn import TritonAttentionImpl

from engine.tree.gpu import worker
from engine.tree.gpu.backend import TreeTritonBackend, TreeTritonImpl, layout_is_known
from engine.tree.gpu.compaction_kernel import Compaction
from engine.tree.gpu.row_tiles import AttentionShape
from engine.tree.gpu.runner import TreeGPUModelRunner
from engine.tree.hooks import TreeUnfit
from engine.tree.step import Step, describe
from engine.tree.topology import Topology

HEADS, KV_HEADS, SIZE, PAGE = 4, 2, 32, 16
TREE = Topology.from_paths([(0,), (1,), (0, 0), (1, 0), (1, 0, 0)])
# Context, rows, drafts: a tree, the last piece of a prompt, a cut tree, a plain row.
REQUESTS = [(30, 6, 5), (12, 6, 0), (20, 4, 3), (5, 1, 0)]
TABLES = torch.tensor([[7, 2, 9], [4, 1, 0], [5, 8, 0], [3, 0, 0]], dtype=torch.int32)


def step() -> Step:
    starts = [0]
    for _, rows, _ in REQUESTS:
        starts.append(starts[-1] + rows)
    computed, drafted = [context for context, _, _ in REQUESTS], [drafts for _, _, drafts in REQUESTS]
    return describe(["a", "b", "c", "d"], starts, computed, drafted, lambda name: TREE)


def runner(caches: list[torch.Tensor]) -> Any:
    made = TreeGPUModelRunner.__new__(TreeGPUModelRunner)
    made.device = torch.device("cpu")
    made._shape, made._processors = AttentionShape(HEADS, KV_HEADS, SIZE, 4), 1
    made._compaction = Compaction(caches)
    tables = SimpleNamespace(get_device_tensor=lambda rows: TABLES[:rows])
    computed = np.array([context for context, _, _ in REQUESTS] + [99])
    made.input_batch = SimpleNamespace(num_computed_tokens_cpu=computed, block_table=[tables])
    return made


def cache() -> torch.Tensor:
    return torch.randn(12, PAGE, KV_HEADS, 2 * SIZE).transpose(1, 2)


def attention() -> Any:
    impl = TreeTritonImpl.__new__(TreeTritonImpl)
    impl.head_size, impl.scale = SIZE, SIZE**-0.5
    return impl


def test_vllms_name_for_its_backend_leads_to_ours() -> None:
    assert AttentionBackendEnum.TRITON_ATTN.get_class() is TreeTritonBackend
    assert TreeTritonBackend.get_impl_cls() is TreeTritonImpl
    assert TreeTritonBackend.get_name() == "TRITON_ATTN"


def test_a_step_with_trees_is_attended_to_in_one_launch() -> None:
    torch.manual_seed(2)
    pages, verified = cache(), step()
    total = verified.starts[-1]
    query, output = torch.randn(total + 3, HEADS, SIZE), torch.full((total + 3, HEADS, SIZE), 7.0)
    metadata = SimpleNamespace(num_actual_tokens=total, trees=runner([pages])._tiles(verified, TABLES))
    attention().forward(None, query, query, query, pages, metadata, output)
    for request, (context, rows, _) in enumerate(REQUESTS):
        tokens = pages.transpose(1, 2)[TABLES[request].long()].flatten(0, 1)
        tree = verified.trees.get(request)
        for row in range(rows):
            own = range(row + 1) if tree is None else tree.topology.lineages[row]
            keys, values = tokens[[*range(context), *(context + node for node in own)]].double().split(SIZE, -1)
            place = verified.starts[request] + row
            for head in range(HEADS):
                scores = keys[:, head // 2] @ query[place, head].double() * SIZE**-0.5
                expected = scores.softmax(0) @ values[:, head // 2]
                torch.testing.assert_close(output[place, head].double(), expected, atol=2e-6, rtol=0)
    assert (output[total:] == 7.0).all()


def test_a_step_without_trees_goes_vllms_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TritonAttentionImpl, "forward", lambda self, *args, **scales: ("vLLM", len(args), scales))
    given = attention().forward(None, *[torch.empty(0)] * 4, SimpleNamespace(), torch.empty(0), output_scale=None)
    assert given == ("vLLM", 7, {"output_scale": None})


def test_quantised_output_is_refused() -> None:
    metadata = SimpleNamespace(trees=object())
    with pytest.raises(ValueError, match="does not quantise"):
        attention().forward(None, *[torch.empty(0)] * 4, metadata, torch.empty(0), output_scale=torch.ones(1))


def test_accepted_rows_are_moved_in_all_layers_at_once() -> None:
    torch.manual_seed(4)
    caches, verified = [cache(), cache()], step()
    before = [pages.clone() for pages in caches]
    assert runner(caches).keep_paths(verified, {0: [2, 4, 5], 2: [1, 3]}) == 2
    moves = [(0, 32, 31), (0, 34, 32), (0, 35, 33), (2, 23, 22)]
    assert [row for row, tree in verified.trees.items()] == [0, 2]
    for pages, old in zip(caches, before, strict=True):
        for request, source, target in moves:
            table = TABLES[request].tolist()
            old_source = before[0 if pages is caches[0] else 1][table[source // PAGE], :, source % PAGE]
            assert torch.equal(pages[table[target // PAGE], :, target % PAGE], old_source)
        changed = (pages != old).any(-1).any(1).sum()
        assert int(changed) == len(moves)
    assert runner(caches).keep_paths(verified, {0: [1], 2: []}) == 0


@pytest.mark.parametrize("right", [True, False])
def test_the_layout_is_probed_with_vllms_own_writer(right: bool) -> None:
    def write(layer: Any, key: Any, value: Any, pages: Any, slots: Any) -> None:
        halves = (key, value) if right else (value, key)
        pages[slots // PAGE, :, slots % PAGE] = torch.cat(halves, -1)

    layer = SimpleNamespace(kv_cache=cache(), impl=SimpleNamespace(head_size=SIZE, do_kv_cache_update=write))
    before = layer.kv_cache.clone()
    assert layout_is_known(layer) is right
    assert torch.equal(layer.kv_cache, before)


def test_the_worker_makes_our_runner_of_the_v1_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    made = worker.TreeGPUWorker.__new__(worker.TreeGPUWorker)
    made.vllm_config, made.device, made.use_v2_model_runner = "config", "device", False
    monkeypatch.setattr(worker, "TreeGPUModelRunner", lambda config, device: (config, device))
    assert made._make_model_runner() == ("config", "device")
    made.use_v2_model_runner = True
    with pytest.raises(TreeUnfit, match="V2 runner"):
        made._make_model_runner()
