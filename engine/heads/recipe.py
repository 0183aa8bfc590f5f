"""From a model to trained heads, stage by stage in one folder: replies, states, heads.

Each stage leaves its file there and is skipped where the file already is, so that an interrupted run goes on and data
made once serves several trainings.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from engine.arguments import cpu_weights
from engine.hardware import read_cpu
from engine.heads import generation, states
from engine.heads.architectures import MedusaHeads, SequentialHeads, build
from engine.heads.checkpoint import Checkpoint, load, save
from engine.heads.config import Architecture, HeadsConfig
from engine.heads.evaluation import calibrate, scores, scores_json, trees
from engine.heads.loop_states import loop_source
from engine.heads.prompts import TOPICS, read_conversations
from engine.heads.replies import Reply, cut_at_loops, distinct, read, split, spread, write
from engine.heads.shipped import fits
from engine.heads.states import Source, States
from engine.heads.target import TargetModel, load_target, model_hash
from engine.heads.training import Plan, Training
from engine.heads.vocabulary import commonest
from engine.native.library import Kept
from engine.options import EngineOptions
from engine.provenance import provenance
from engine.vllm_engine import VllmEngine

Report = Callable[[str, float, str], None]

REPLIES, STATES, HELD_OUT_STATES = "replies.jsonl.gz", "states", "states-held-out"
_SEED = 0
# How the loops keep a target's weights, by how the engine does (`engine.arguments.cpu_weights`).
_KEPT: Mapping[str, Kept | None] = {
    "int8": "int8",
    "int8 or auto": "int8",
    "auto": "float16",
    "float16": "float16",
    "float32": None,
}


@dataclass(frozen=True, slots=True)
class Data:
    """Where replies come from.

    Attributes:
        replies: files of replies that exist; empty: they are generated.
        conversations: a file of prompts to answer; None: callers are invented.
        count: prompts to invent.
        max_tokens: of a reply.
        greedy_share: of the replies.
        held_out: topics to judge by and not to learn from; empty: the last eighth of the topics.
        max_rows: tokens to learn from at most, None for all.
    """

    replies: tuple[Path, ...] = ()
    conversations: Path | None = None
    count: int = 4000
    max_tokens: int = 192
    greedy_share: float = 0.5
    held_out: tuple[str, ...] = ()
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to train.

    Attributes:
        architecture: of the heads.
        depth: heads.
        inner: `sequential`: width inside a block; None: 16/9 of the hidden state's.
        layers: of each.
        draft_vocabulary: tokens they may draft.
        plan: of the training.
        begin: a file of heads of the same sizes to go on from; None: from random ones.
    """

    architecture: Architecture
    depth: int
    inner: int | None
    layers: int
    draft_vocabulary: int
    plan: Plan
    begin: Path | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """For which model, and where.

    Attributes:
        engine: settings of the engine that generates replies.
        cache_dir: of the embedded model.
        model: folder or name that `transformers` loads the target from.
        device: to train on: `cpu`, `cuda`.
        folder: for everything that is kept.
        argv: for the provenance.
    """

    engine: EngineOptions
    cache_dir: Path
    model: str
    device: str
    folder: Path
    argv: tuple[str, ...]


def train(request: Request, data: Data, wanted: Wanted, report: Report) -> dict[str, Any]:
    """Every stage; writes `<architecture>.safetensors` into the folder.

    Args:
        request: for which model.
        data: where replies come from.
        wanted: what to train.
        report: takes the stage, the share of it that is done, and a note.

    Returns:
        What was also written into the heads: config, provenance, acceptance.

    Raises:
        ValueError: the data, or the heads to begin with, do not fit what is wanted.
        EngineError: replies cannot be generated.
    """
    request.folder.mkdir(parents=True, exist_ok=True)
    learnt, held = _replies(request, data, report)
    target = load_target(request.model, request.device)
    token_map = torch.tensor(
        commonest((reply.ids for reply in learnt), wanted.draft_vocabulary, len(target.vocabulary))
    )
    shared = target.shared(token_map)
    heads, begin = _first(wanted, request.model, target.hidden)
    heads.to(request.device)
    known = _states(_source(target, request, learnt), learnt, request, STATES, report)
    training = Training(heads, shared, known, wanted.plan, request.folder / f"training-{wanted.architecture}", begin)
    training.run(lambda progress, share: report("training", share, f"loss {progress.loss:.3f}"))
    shares = calibrate(heads, shared, known, training.validation)
    judged = _states(target.states, held, request, HELD_OUT_STATES, report)
    found = scores(heads, shared, judged, trees(shares, wanted.depth))
    about = {
        "target": {"model": Path(request.model).name, "sha256": model_hash(Path(request.model))},
        "data": _data_recipe(data, known, judged),
        "plan": asdict(wanted.plan),
        "begin": begin,
        "progress": asdict(training.progress),
        "provenance": provenance(request.argv, wanted.plan.seed),
        "acceptance": scores_json(found),
        "paths": [[list(entry.path), round(entry.share, 6)] for entry in shares],
    }
    save(request.folder / f"{wanted.architecture}.safetensors", Checkpoint(heads, token_map, about))
    return about


def _replies(request: Request, data: Data, report: Report) -> tuple[list[Reply], list[Reply]]:
    """To learn from, loops cut; and to judge by, as they are."""
    kept = request.folder / REPLIES
    if data.replies:
        everything = [reply for path in data.replies for reply in read(path)]
    elif kept.exists():
        everything = read(kept)
    else:
        everything = asyncio.run(_generate(VllmEngine(request.engine, request.cache_dir), data, report))
        write(kept, everything, provenance(request.argv, _SEED))
    topics = list(dict.fromkeys(reply.topic for reply in everything))
    held_out = data.held_out or tuple(topics[-max(1, len(topics) // 8) :])
    if unknown := sorted(set(held_out) - set(topics)):
        raise ValueError(f"held-out topics that no reply has: {', '.join(unknown)}")
    learnt, held = split(everything, held_out)
    if not learnt or not held:
        raise ValueError(f"{len(topics)} topics: at least two are needed, one of them to judge by")
    return _at_most(cut_at_loops(learnt), data.max_rows), distinct(held)


async def _generate(engine: VllmEngine, data: Data, report: Report) -> list[Reply]:
    """Replies by the engine, which runs only for this."""
    await engine.start()
    try:
        at_once = int(engine.client.vllm_config.scheduler_config.max_num_seqs)
        if data.conversations is not None:
            prompts = read_conversations(data.conversations, engine.tokenizer)
        else:
            prompts = await generation.invented_questions(
                engine, TOPICS, data.count, at_once, _SEED, lambda done, total: report("questions", done / total, "")
            )
        return await generation.replies(
            engine,
            prompts,
            data.max_tokens,
            data.greedy_share,
            at_once,
            _SEED,
            lambda done, total: report("replies", done / total, ""),
        )
    finally:
        await engine.stop()


def _at_most(replies: list[Reply], rows: int | None) -> list[Reply]:
    """Replies from all over the list, with about this many tokens in all."""
    total = sum(len(reply.ids) for reply in replies)
    if rows is None or total <= rows:
        return replies
    return [reply for reply, kept in zip(replies, spread(len(replies), rows / total), strict=True) if kept]


def _first(wanted: Wanted, model: str, hidden: int) -> tuple[MedusaHeads | SequentialHeads, Mapping[str, Any] | None]:
    """Heads before they are trained, and where they come from; None for random ones."""
    inner = wanted.inner or hidden * 16 // 9
    config = HeadsConfig(wanted.architecture, wanted.depth, hidden, inner, wanted.layers, wanted.draft_vocabulary)
    if wanted.begin is None:
        return build(config), None
    checkpoint = load(wanted.begin)
    heads = checkpoint.heads
    if checkpoint.own:
        raise ValueError(f"{wanted.begin}: heads with vocabulary matrices of their own, which are not trained here")
    if heads.config != config:
        raise ValueError(f"{wanted.begin}: heads of other sizes: {heads.config}, wanted are {config}")
    if not fits(checkpoint.about, Path(model)):
        raise ValueError(f"{wanted.begin}: heads of another model than {Path(model).name}")
    return heads.requires_grad_(), checkpoint.about.get("provenance")


def _source(target: TargetModel, request: Request, replies: Sequence[Reply]) -> Source:
    """On a CPU the compiled loops, with weights as the engine keeps them, if they run the target; else the target itself."""
    cpu = read_cpu() if request.device == "cpu" else None
    kept = None if cpu is None else _KEPT[cpu_weights(request.engine, cpu)]
    longest = max(len(reply.prompt_ids) + len(reply.ids) for reply in replies)
    return (kept and loop_source(target.model, kept, longest)) or target.states


def _states(source: Source, replies: Sequence[Reply], request: Request, name: str, report: Report) -> States:
    def share(done: int, total: int) -> None:
        report(name, done / total, "")

    return states.compute(source, replies, request.folder / name, provenance(request.argv), share)


def _data_recipe(data: Data, learnt: States, held: States) -> dict[str, Any]:
    invented = not data.replies and data.conversations is None
    return {
        "learnt": {"topics": len(set(learnt.topics)), "replies": learnt.replies, "tokens": len(learnt.tokens)},
        "held_out": {"topics": sorted(set(held.topics)), "replies": held.replies, "tokens": len(held.tokens)},
        "files": [path.name for path in data.replies],
        "conversations": None if data.conversations is None else data.conversations.name,
        "invented": data.count if invented else 0,
        "max_tokens": data.max_tokens,
        "greedy_share": data.greedy_share,
        "loops": "cut where a run of 8 tokens repeats; each text once",
    }
