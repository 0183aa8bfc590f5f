"""vLLM's single-process executor, allowed on the CPU: the one worker lives in the engine core's own process.

vLLM replaces it by its multi-process executor there, because the OpenMP environment must be set before a process
starts. `engine.core_process` starts the core with that environment, so the reason is gone, and with it a third
process that imports everything again and takes part in every step over a queue. vLLM replaces it by name only; a name
of its own is enough.
"""

from vllm.v1.executor.uniproc_executor import UniProcExecutor


class InCoreExecutor(UniProcExecutor):  # type: ignore[misc]
    """One worker, in the engine core's process."""
