"""Token generation: one small async interface over vLLM, and what makes it fast. Knows nothing of HTTP, Prometheus."""
