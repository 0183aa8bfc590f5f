"""vLLM's CPU worker with one repair: a seeded request whose prompt is read in chunks.

vLLM samples a token for every chunk, also where the prompt is not complete, throws it away and turns the request's
random generator back by its offset. CPU generators have no offset, and the attempt kills the engine. Here the
generator's whole state is put back instead, and vLLM does not see it: a seeded reply is then the same whether or not
its prompt was chunked.
"""

from contextlib import nullcontext
from typing import Any

from vllm.v1.worker import cpu_worker
from vllm.v1.worker.cpu_model_runner import CPUModelRunner

from engine import cpu_sampling, fbgemm_linear, kept_weights, llama_forward


class SeedSafeCPUModelRunner(CPUModelRunner):  # type: ignore[misc]
    """Overrides the two methods between which a discarded sample is drawn and undone."""

    def _discarded_rows(self) -> list[int]:
        """Rows of the batch whose prompt is not complete in this step and that have a generator."""
        discarded = self.discard_request_mask.np[: self.input_batch.num_reqs]
        return [row for row in self.input_batch.generators if row < len(discarded) and discarded[row]]

    def _sample(self, *args: Any, **kwargs: Any) -> Any:
        generators = self.input_batch.generators
        states = {row: generators[row].get_state() for row in self._discarded_rows()}
        output = super()._sample(*args, **kwargs)
        for row, state in states.items():
            generators[row].set_state(state)
        return output

    def _bookkeeping_sync(self, *args: Any, **kwargs: Any) -> Any:
        generators = self.input_batch.generators
        hidden = {row: generators.pop(row) for row in self._discarded_rows()}
        try:
            return super()._bookkeeping_sync(*args, **kwargs)
        finally:
            generators.update(hidden)


class VoicepaceCPUWorker(cpu_worker.CPUWorker):  # type: ignore[misc]
    """vLLM's worker with our model runner and sampler.

    Attributes:
        runner: the class of its model runner.
    """

    runner: type[SeedSafeCPUModelRunner] = SeedSafeCPUModelRunner

    def init_device(self) -> None:
        """As vLLM's, which takes the runner's class from a global of its module and offers no other way."""
        cpu_sampling.install()
        fbgemm_linear.install()
        theirs = cpu_worker.CPUModelRunner
        cpu_worker.CPUModelRunner = self.runner
        try:
            super().init_device()
        finally:
            cpu_worker.CPUModelRunner = theirs

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """As vLLM's, with weights in fewer bits where the settings want them, and a shorter way through Llama's layers."""
        kept = kept_weights.wanted(self.vllm_config)
        with kept_weights.loaded(kept) if kept else nullcontext():
            super().load_model(*args, **kwargs)
        self._straight = llama_forward.install(self.model_runner.get_model())

    def runs_straight(self) -> bool:
        """Whether the model runs by `engine.llama_forward` and not by vLLM's modules."""
        return self._straight
