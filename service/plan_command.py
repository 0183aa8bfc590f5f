"""`voicepace plan`: will this model on this GPU keep the objective, and what to change if not."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.api import EngineError
from engine.plan.calibration import Measured, measured_from_json
from engine.plan.capacity import Objective
from engine.plan.delivery import Arrival, Deliver
from engine.plan.devices import DEVICES, Device, find_device
from engine.plan.drafts import DRAFT_READS, SPECULATIONS, Draft, measured_draft_shares, usual_draft
from engine.plan.errors import PlanError
from engine.plan.forecast import Forecast, Question, forecast, forecast_measured
from engine.plan.models import KV_BYTES, MODELS, WEIGHT_BYTES, ModelShape, find_model, shape_from_config
from engine.plan.published import comparison_json, comparison_text
from engine.plan.report import as_json, as_text
from engine.plan.roofline import Setup
from engine.plan.timing import Calibrated
from service.settings import SettingsError, load_settings
from tts_adapter.options import PacingOptions
from tts_adapter.pace_model import PaceModel
from tts_adapter.pacer import Pacer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    _add_machine(parser)
    _add_speculation(parser)
    question = parser.add_argument_group("question")
    question.add_argument("--calls", type=int, default=1, help="calls that generate at the same moment (default 1)")
    question.add_argument("--objective-ms", type=float, default=20.0, help="longest delivered gap (default 20)")
    question.add_argument(
        "--slo-share", type=float, default=0.99, help="share of gaps that must keep it (default 0.99)"
    )
    question.add_argument("--max-first-hold-ms", type=float, default=None, help="the pacer's longest first hold")
    question.add_argument(
        "--turn-interval", type=float, default=12.0, help="seconds between a call's turns (default 12)"
    )
    question.add_argument(
        "--price-per-hour", type=float, default=None, help="of one GPU, for the cost of a call-minute"
    )
    parser.add_argument(
        "--calibrate", type=Path, help="a step-time measurement of this machine, instead of the roofline"
    )
    parser.add_argument(
        "--measure",
        type=Path,
        help="run the engine of the current settings, write its step times here, and plan from them",
    )
    parser.add_argument("--published", action="store_true", help="compare the arithmetic with published measurements")
    parser.add_argument("--json", action="store_true", help="print one JSON document as the last line")


def _add_machine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("machine and model")
    group.add_argument("--gpu", default=None, help=f"{', '.join(d.name for d in DEVICES)} (default L4)")
    group.add_argument("--bandwidth-gbs", type=float, help="GB/s of a GPU not listed (with --tflops and --memory-gb)")
    group.add_argument("--tflops", type=float, help="its dense bf16 TFLOPS")
    group.add_argument("--fp8-tflops", type=float, help="its dense fp8 TFLOPS, if it has an fp8 unit")
    group.add_argument("--memory-gb", type=float, help="its memory")
    group.add_argument("--model", default="llama-3-8b", help=f"a config.json, or one of {', '.join(MODELS)}")
    group.add_argument("--weights", choices=list(WEIGHT_BYTES), default="bf16")
    group.add_argument("--kv", choices=list(KV_BYTES), default="bf16", help="precision of keys and values")
    group.add_argument("--tensor-parallel", type=int, default=1, help="GPUs that share the model (default 1)")
    group.add_argument("--context", type=int, default=1024, help="tokens a call holds (default 1024)")
    group.add_argument(
        "--prompt-tokens", type=int, default=256, help="of a turn, not in the prefix cache (default 256)"
    )
    group.add_argument(
        "--bandwidth-efficiency", type=float, default=0.9, help="share of the peak reached (default 0.9)"
    )
    group.add_argument("--flops-efficiency", type=float, default=0.6, help="share of the peak reached (default 0.6)")
    group.add_argument("--overhead-ms", type=float, default=1.0, help="per step, whatever the batch (default 1)")


def _add_speculation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("speculation")
    group.add_argument("--speculation", choices=SPECULATIONS, default="none")
    group.add_argument("--tokens-per-step", type=float, help="acceptance length, bonus token included")
    group.add_argument("--acceptance", type=Path, help="JSON with tokens_per_step or accepted_by_depth, as measured")
    group.add_argument("--depth", type=int, help="Medusa heads, or draft tokens (default 4; draft_model 5)")
    group.add_argument("--nodes", type=int, help="rows verified besides the first (default: depth; medusa_tree 16)")
    group.add_argument("--draft-read", choices=DRAFT_READS, help="how heads read the vocabulary matrix")
    group.add_argument("--draft-vocabulary", type=int, help="rows of a shortened vocabulary matrix of the heads")
    group.add_argument("--draft-model", help="of speculation draft_model: a config.json or a name as for --model")


def run(args: argparse.Namespace) -> int:
    """Prints the plan. 0: printed; 2: an input is wrong, named on stderr."""
    try:
        if args.measure is not None:
            _measure(args)
        text, document = _published() if args.published else _planned(args)
    except (PlanError, SettingsError, EngineError, OSError) as error:
        print(f"voicepace plan: {error}", file=sys.stderr)
        return 2
    print(text)
    if args.json:
        print(json.dumps(document))
    return 0


def _measure(args: argparse.Namespace) -> None:
    """The measurement is what the plan is then made from."""
    from service.step_measurement import measure

    if args.calibrate is not None:
        raise PlanError("measure", "makes the measurement that --calibrate would read: give one of them")
    measure(load_settings(), args.measure)
    args.calibrate = args.measure


def _published() -> tuple[str, dict[str, object]]:
    return comparison_text(), comparison_json()


def _planned(args: argparse.Namespace) -> tuple[str, dict[str, object]]:
    notes: list[str] = []
    plan = _measured_plan(args, notes) if args.calibrate is not None else _roofline_plan(args, notes)
    return as_text(plan, notes), as_json(plan) | {"notes": notes}


def _roofline_plan(args: argparse.Namespace, notes: list[str]) -> Forecast:
    setup = Setup(
        device=_device(args),
        model=_model(args.model),
        draft=_draft(args, None, notes),
        weights=args.weights,
        kv=args.kv,
        tensor_parallel=args.tensor_parallel,
        context_tokens=args.context,
        bandwidth_efficiency=args.bandwidth_efficiency,
        flops_efficiency=args.flops_efficiency,
        overhead_s=args.overhead_ms / 1000,
    )
    if setup.weights == "fp8" and setup.device.fp8_flops is None:
        notes.append(f"{setup.device.name} has no fp8 unit: weights are stored in fp8 and multiplied in bf16")
    return forecast(setup, _question(args), _Pacers(args.objective_ms, args.max_first_hold_ms))


def _measured_plan(args: argparse.Namespace, notes: list[str]) -> Forecast:
    if args.gpu is not None or args.bandwidth_gbs is not None:
        raise PlanError("calibrate", "a measurement replaces the GPU's figures: leave --gpu and --bandwidth-gbs out")
    measured = measured_from_json(_json_file("calibrate", args.calibrate))
    notes.append(f"step time of {measured.model} fitted on batch {', '.join(map(str, sorted(measured.step_s)))}")
    draft = _draft(args, measured, notes)
    pacers = _Pacers(args.objective_ms, args.max_first_hold_ms)
    return forecast_measured(Calibrated(measured), draft, _question(args), pacers)


def _question(args: argparse.Namespace) -> Question:
    objective = Objective(args.objective_ms / 1000, args.slo_share, args.turn_interval)
    return Question(args.calls, args.prompt_tokens, args.price_per_hour, objective)


def _device(args: argparse.Namespace) -> Device:
    given = (args.bandwidth_gbs, args.tflops, args.memory_gb)
    if all(value is None for value in given):
        return find_device(args.gpu or "L4")
    if args.gpu is not None or any(value is None for value in given):
        raise PlanError("gpu", "give either --gpu, or --bandwidth-gbs, --tflops and --memory-gb together")
    fp8 = None if args.fp8_tflops is None else args.fp8_tflops * 1e12
    return Device("custom GPU", args.bandwidth_gbs * 1e9, args.tflops * 1e12, fp8, args.memory_gb * 1e9)


def _model(name: str) -> ModelShape:
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        return find_model(name)
    config = _json_file("model", path)
    if not isinstance(config, Mapping):
        raise PlanError("model", f"{path} does not hold a JSON object")
    return shape_from_config(config, path.parent.name or path.name)


def _draft(args: argparse.Namespace, measured: Measured | None, notes: list[str]) -> Draft:
    if args.speculation == "none":
        return _no_draft(args, measured, notes)
    shares, tokens = _acceptance(args.acceptance)
    if args.tokens_per_step is not None:
        shares, tokens = None, args.tokens_per_step
    elif shares is None and tokens is None and measured is not None:
        tokens = measured.tokens_per_step
    return usual_draft(
        args.speculation,
        tokens_per_step=tokens,
        measured_by_depth=shares,
        depth=args.depth,
        nodes=args.nodes,
        read=args.draft_read,
        vocabulary=args.draft_vocabulary,
        model=None if args.draft_model is None else _model(args.draft_model),
    )


def _no_draft(args: argparse.Namespace, measured: Measured | None, notes: list[str]) -> Draft:
    if args.tokens_per_step not in (None, 1.0) or args.acceptance is not None:
        notes.append("without speculation a step yields one token: the given acceptance is not used")
    if measured is not None and measured.tokens_per_step > 1.001:
        reason = f"the measurement yields {measured.tokens_per_step:.2f} tokens per step: name what it speculated with"
        raise PlanError("speculation", reason)
    return Draft()


def _acceptance(path: Path | None) -> tuple[tuple[float, ...] | None, float | None]:
    """Measured shares by depth, and tokens per step; None for what the file does not hold."""
    if path is None:
        return None, None
    document = _json_file("acceptance", path)
    if not isinstance(document, Mapping):
        raise PlanError("acceptance", f"{path} does not hold a JSON object")
    by_depth, tokens = document.get("accepted_by_depth"), document.get("tokens_per_step")
    if isinstance(by_depth, list) and all(isinstance(share, int | float) for share in by_depth):
        return measured_draft_shares(by_depth), None
    if isinstance(tokens, int | float) and not isinstance(tokens, bool):
        return None, float(tokens)
    raise PlanError("acceptance", f"{path} holds neither accepted_by_depth nor tokens_per_step")


def _json_file(parameter: str, path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(parameter, f"cannot read {path}: {error}") from error


class _Pacers:
    """Fresh pacers for the simulation, with the service's own settings; each learns over the replies it is given."""

    def __init__(self, slo_ms: float, max_first_hold_ms: float | None) -> None:
        defaults = PacingOptions()
        hold = defaults.max_first_hold_ms if max_first_hold_ms is None else max_first_hold_ms
        try:
            # The aim keeps its distance to the edge when the edge moves.
            target = defaults.target_gap_ms * slo_ms / defaults.slo_ms
            self._options = PacingOptions(max_first_hold_ms=hold, slo_ms=slo_ms, target_gap_ms=target)
        except ValueError as error:
            raise PlanError("pacing", f"objective {slo_ms:g} ms or first hold {hold:g} ms is out of range") from error

    def __call__(self) -> Deliver:
        model = PaceModel(self._options.slo_ms / 1000)

        def deliver(arrivals: Sequence[Arrival]) -> list[float]:
            return paced(Pacer[int](self._options, model), arrivals)

        return deliver


def paced(pacer: Pacer[int], arrivals: Sequence[Arrival]) -> list[float]:
    """Release times when every wake-up is on time: one reply through the pacer in virtual time."""
    released: list[float] = []
    for arrival in arrivals:
        _release_until(pacer, arrival.at_s, released)
        pacer.push(range(arrival.tokens), arrival.at_s)
    if arrivals:
        pacer.flush(arrivals[-1].at_s)
    _release_until(pacer, float("inf"), released)
    return released


def _release_until(pacer: Pacer[int], until_s: float, released: list[float]) -> None:
    while (due := pacer.next_wakeup()) is not None and due < until_s:
        released += [due] * len(pacer.pop_ready(due))
