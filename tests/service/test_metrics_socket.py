"""A known burst trace through the service: what the scrape says is exactly what happened."""

import asyncio
import json

import httpx
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from engine.fake import Script, ScriptedEngine
from service.settings import load_settings
from tests.service.running import running_service

# (delay since the step before, tokens), each well inside a bucket: ten words and the token that ends the reply.
TRACE = ((0.020, 1), (0.028, 3), (0.033, 2), (0.0185, 1), (0.042, 4))
REPLY = "one two three four five six seven eight nine ten"


def counts(scrape: str, name: str) -> dict[str, float]:
    """Non-cumulative counts by upper edge, empty buckets left out."""
    found: dict[str, float] = {}
    below = 0.0
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            if sample.name == f"{name}_bucket":
                if sample.value > below:
                    found[sample.labels["le"]] = sample.value - below
                below = sample.value
    return found


def test_a_trace_gives_the_exact_bucket_counts() -> None:
    settings = load_settings({"scripted.enabled": "true"}, environ={})
    with running_service(settings, ScriptedEngine(REPLY, Script(trace=TRACE))) as service:

        async def call() -> None:
            async with connect(f"{service.ws}/v1/voice") as bridge:
                await bridge.send('{"type":"start"}')
                await bridge.send('{"type":"user_text","text":"count"}')
                while json.loads(await bridge.recv())["type"] != "turn_end":
                    pass

        asyncio.run(call())
        scrape = httpx.get(f"{service.http}/metrics").text
    assert counts(scrape, "voicepace_step_gap_seconds") == {"0.02": 1, "0.03": 1, "0.035": 1, "0.045": 1}
    assert counts(scrape, "voicepace_engine_tit_seconds") == {"0.01": 3, "0.0125": 4, "0.0175": 2, "0.02": 1}
    assert counts(scrape, "voicepace_acceptance_length") == {"1.0": 2, "2.0": 1, "3.0": 1, "4.0": 1}
    assert sum(counts(scrape, "voicepace_delivered_gap_seconds").values()) == 9
    assert sum(counts(scrape, "voicepace_ttft_seconds").values()) == 1
