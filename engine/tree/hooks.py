"""What trees rely on inside vLLM, and whether it is what it was when they were written.

Every hook is something of vLLM's that is overridden, called or read from within. It is recognised by a hash of its
source, signature included, so that an upgrade that touches it is noticed by name.

    python -m engine.tree.hooks     prints the tables below for the vLLM that is installed
"""

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from functools import reduce
from typing import Any

VLLM_VERSION = "0.32.0"

HOOKS: dict[str, str] = {
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner.execute_model": "e058bf791a29",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner.sample_tokens": "047e6a4738de",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._update_states": "326599f31b27",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._prepare_inputs": "c31a77c123a0",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._prepare_input_ids": "9971f6aca2dd",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._calc_spec_decode_metadata": "6148d63fa0bf",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._build_attention_metadata": "6015ffa2b3ec",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._get_slot_mappings": "a7830268c258",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._preprocess": "c9dda92faeb3",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._model_forward": "a8f98588a465",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._sample": "5cb5c1da02cf",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._bookkeeping_sync": "13c3e81003a7",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._input_fits_in_drafter": "24d6a45dca3c",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner.propose_draft_token_ids": "a60269aca9de",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner.take_draft_token_ids": "21e3697c8c5f",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._copy_draft_token_ids_to_cpu": "2f68963acce4",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._get_draft_token_ids_cpu": "48bdeff52e00",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner.initialize_kv_cache": "95985f4cf7f6",
    "vllm.v1.worker.gpu_input_batch:InputBatch.update_req_spec_token_ids": "44ebcd8666c2",
    "vllm.v1.attention.backends.registry:register_backend": "86320b69bbd6",
    "vllm.v1.sample.rejection_sampler:RejectionSampler.__init__": "d93a889a9688",
    "vllm.v1.sample.rejection_sampler:RejectionSampler.parse_output": "6090d9b98327",
    "vllm.v1.sample.sampler:Sampler.forward": "586fe802add4",
    "vllm.v1.sample.sampler:Sampler.greedy_sample": "4f85791ad324",
    "vllm.v1.sample.sampler:Sampler.apply_logits_processors": "4b31813d0881",
    "vllm.v1.sample.metadata:SamplingMetadata": "4d22e4d3555f",
    "vllm.v1.sample.logits_processor.builtin:MinTokensLogitsProcessor": "f6f556531efd",
    "vllm.v1.spec_decode.metadata:SpecDecodeMetadata": "029a5a8fb86c",
    "vllm.v1.spec_decode.custom_class_proposer:create_custom_proposer": "b090d3960d9f",
    "vllm.v1.core.sched.scheduler:Scheduler.update_draft_token_ids": "f05dcf1d7891",
    "vllm.v1.core.sched.scheduler:Scheduler.update_from_output": "85b29db96051",
    "vllm.v1.core.sched.output:SchedulerOutput": "97fb4463a2ed",
    "vllm.v1.core.sched.output:CachedRequestData": "b0a215b04012",
    "vllm.v1.core.sched.output:NewRequestData": "aa136aaeddfe",
}

CPU_HOOKS: dict[str, str] = {
    "vllm.v1.worker.cpu_model_runner:CPUModelRunner.__init__": "26ba909a7737",
    "vllm.v1.worker.cpu_model_runner:CPUModelRunner.load_model": "270bdfc6670d",
    "vllm.v1.worker.cpu_model_runner:CPUModelRunner.initialize_kv_cache": "6d8edd7af06b",
    "vllm.v1.worker.cpu_worker:CPUWorker.init_device": "11721464aeb0",
    "vllm.v1.worker.cpu_worker:CPUWorker.compile_or_warm_up_model": "faf0a9720ca4",
    "vllm.v1.attention.backends.cpu_attn:CPUAttentionBackendImpl.forward": "e746d486d22b",
    "vllm.v1.attention.backends.cpu_attn:CPUAttentionBackendImpl.do_kv_cache_update": "9cccd68715a2",
    "vllm.v1.attention.backends.cpu_attn:CPUAttentionMetadataBuilder.__init__": "35f672b785df",
    "vllm.v1.attention.backends.cpu_attn:CPUAttentionMetadataBuilder.build": "7ff5ab962cb4",
    "vllm.platforms.cpu:CpuPlatform.get_attn_backend_cls": "b6eba62a9afd",
    "vllm._custom_ops:cpu_attn_reshape_and_cache": "65cc4f4cf563",
}

GPU_HOOKS: dict[str, str] = {
    "vllm.v1.worker.gpu_worker:Worker._make_model_runner": "3817214704e1",
    "vllm.v1.worker.gpu_worker:Worker.init_device": "a45cd75063bc",
    "vllm.v1.worker.gpu_worker:Worker.compile_or_warm_up_model": "4cc9795229ca",
    "vllm.v1.worker.block_table:BlockTable.get_device_tensor": "beb765505492",
    "vllm.v1.attention.backends.triton_attn:TritonAttentionImpl.forward": "f8bd280f132e",
    "vllm.v1.attention.backends.triton_attn:TritonAttentionImpl.do_kv_cache_update": "ab4e8b0582a4",
    "vllm.v1.attention.backends.triton_attn:TritonAttentionMetadataBuilder.build": "b52c7d32f5f5",
}


# What a message of `TreeUnfit` begins with, also where only the text has come through from another process.
MARK = "trees cannot be used:"


class TreeUnfit(RuntimeError):
    """Trees must not be used here; the message names the hook or the check.

    Args:
        what: the hook or check.
        reason: what is wrong with it, one line.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{MARK} {what}: {reason}")


def source_hash(name: str) -> str:
    """The first 12 digits of the SHA-256 of a hook's source.

    Args:
        name: `module:attribute.attribute`.

    Raises:
        TreeUnfit: there is no such thing.
    """
    module, _, path = name.partition(":")
    try:
        found: Any = reduce(getattr, path.split("."), importlib.import_module(module))
        return hashlib.sha256(inspect.getsource(inspect.unwrap(found)).encode()).hexdigest()[:12]
    except (ImportError, AttributeError, TypeError, OSError) as error:
        raise TreeUnfit(name, "is no longer there") from error


def check_hooks(own: Mapping[str, str]) -> None:
    """Compare vLLM with what trees were written for.

    Args:
        own: the hooks of the device beside those that all devices share.

    Raises:
        TreeUnfit: another version, or a hook that differs.
    """
    import vllm

    if vllm.__version__ != VLLM_VERSION:
        raise TreeUnfit("vllm", f"is version {vllm.__version__}, trees were written for {VLLM_VERSION}")
    for name, known in {**HOOKS, **own}.items():
        if source_hash(name) != known:
            raise TreeUnfit(name, "is not what it was in the version that trees were written for")


if __name__ == "__main__":
    for table in (HOOKS, CPU_HOOKS, GPU_HOOKS):
        print("\n".join(f'    "{hook}": "{source_hash(hook)}",' for hook in table), end="\n\n")
