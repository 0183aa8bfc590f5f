"""onnxruntime sessions for voices: few threads, and none that spins."""

from typing import Any


def onnx_session(model: str | bytes, threads: int) -> Any:
    """A session of a model, by path or serialised, on so many threads, which do not spin while they wait."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
