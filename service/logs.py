"""Logging to standard error, one line per event, without anything that was said."""

import logging
import sys


def set_up(level: str, engine_level: str) -> None:
    """Configure the root logger: `level` for our own loggers, `engine_level` for vLLM's, warnings for everybody else's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("voicepace").setLevel(level.upper())
    logging.getLogger("vllm").setLevel(engine_level.upper())
