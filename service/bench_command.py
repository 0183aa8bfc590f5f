"""`voicepace bench …`: benchmarks by name, each in a module of its own."""

import argparse

from service.subcommands import add_subcommands, run_subcommand

BENCHES = {
    "published": ("engine.bench.published", "strategies of speculation against plain decoding on this machine"),
    "perplexity": ("engine.bench.perplexity", "what a quantization costs in quality, on held-out replies"),
    "speculation": ("engine.bench.speculation", "what drafting is worth on this machine, all strategies in one run"),
    "pacing": ("tts_adapter.bench.pacing", "the pacer against an optimum that knows the future, on engine traces"),
    "record": ("service.trace_bench", "engine traces for the bench of pacing"),
    "firstaudio": ("service.first_audio_bench", "from the caller's words to the first sound, by stage"),
    "peer": ("service.peer_bench", "this service beside a peer that does the same audio job"),
    "readahead": (
        "service.readahead_bench",
        "what reading partial words ahead gains over prefix caching, on the engine",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One subcommand per benchmark."""
    add_subcommands(parser, BENCHES, "bench")


def run(args: argparse.Namespace) -> int:
    """Run it; its exit status."""
    return run_subcommand(BENCHES, args.bench, args)
