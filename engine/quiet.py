"""Imported before vLLM, where its own settings come too late: it says things while it is being imported.

The level is vLLM's own variable, `VLLM_LOGGING_LEVEL`, which `engine.launch` sets from the settings.
"""

import logging
import os
import warnings

logging.getLogger("vllm").setLevel(os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"))
# Deprecations inside vLLM and torch are for their developers.
warnings.filterwarnings("ignore", module=r"(vllm|torch)\b")
