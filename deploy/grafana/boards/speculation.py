"""What drafting gains, and what it costs."""

from deploy.grafana.boards.panel import JOB, OBJECTIVE_S, Board, Panel, Query, quantile

STEP = "job_model:voicepace_step_gap_seconds:quantile_rate5m"

BOARD = Board(
    "voicepace-speculation",
    "voicepace: Speculation",
    "What drafting gains, and what it costs.",
    (
        (
            "Gain",
            (
                Panel(
                    "How many tokens does a step yield?",
                    "none",
                    "Mean acceptance length over ten minutes, bonus token included: 1 is no gain at all. The "
                    "stored line is the value "
                    "the heads had when they were trained; less than half of its gain means that they no longer fit.",
                    (
                        Query(f"job_model:voicepace_acceptance_length:mean_rate10m{{{JOB}}}", "{{model}}"),
                        Query(f"voicepace_heads_acceptance_length{{{JOB}}}", "stored with the heads"),
                    ),
                ),
                Panel(
                    "At which depth do drafts fail?",
                    "percentunit",
                    "Share of steps whose accepted draft reached each depth. A drop at one depth points to that head.",
                    (Query(f"job_model_depth:voicepace_accepted:ratio_rate10m{{{JOB}}} > 0", "depth {{depth}}"),),
                ),
                Panel(
                    "What does speculation make of a step?",
                    "s",
                    "Engine TIT: the step gap shared among the tokens it yielded, before pacing. Its mean must "
                    "stay under 20 ms "
                    "for pacing to be able to.",
                    (
                        Query(quantile(0.5, "voicepace_engine_tit_seconds"), "p50"),
                        Query(quantile(0.95, "voicepace_engine_tit_seconds"), "p95"),
                        Query(
                            f"sum(rate(voicepace_engine_tit_seconds_sum{{{JOB}}}[$__rate_interval]))"
                            f" / (sum(rate(voicepace_engine_tit_seconds_count{{{JOB}}}[$__rate_interval])) > 0)",
                            "mean",
                        ),
                    ),
                    line=OBJECTIVE_S,
                ),
                Panel(
                    "How are the lengths spread?",
                    "none",
                    "Steps by the tokens they yielded. Much at 1 beside much at 4 makes bursts, which cost a "
                    "longer first hold.",
                    (
                        Query(
                            f"sum by (le) (increase(voicepace_acceptance_length_bucket{{{JOB}}}[$__rate_interval]))",
                            "{{le}}",
                        ),
                    ),
                    kind="heatmap",
                ),
            ),
        ),
        (
            "Cost",
            (
                Panel(
                    "How does step time move with the batch?",
                    "s",
                    "Step gap on the left, requests in the batch on the right. Both rising together is load; step"
                    " time rising alone is "
                    "a throttled or shared GPU, or long prompts between the steps.",
                    (
                        Query(f'{STEP}{{{JOB},quantile="0.5"}}', "step p50"),
                        Query(f'{STEP}{{{JOB},quantile="0.95"}}', "step p95"),
                        Query(f"sum(vllm:num_requests_running{{{JOB}}})", "batch", right_axis=True),
                    ),
                    right_unit="none",
                ),
                Panel(
                    "What share of a chain's drafted tokens is accepted?",
                    "percentunit",
                    "Only for methods that draft a chain. Under one half most of the drafting is wasted. For a "
                    "tree this says "
                    "nothing: most of its nodes must be rejected.",
                    (Query(f"job_instance:vllm_spec_decode_accepted:ratio_rate10m{{{JOB}}}", "{{instance}}"),),
                ),
            ),
        ),
    ),
)
