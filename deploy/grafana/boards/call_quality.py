"""What callers hear: gaps, stutter, first sound, interrupts."""

from deploy.grafana.boards.panel import JOB, OBJECTIVE_S, PACED, Board, Panel, Query, quantile

GAP = "job_model:voicepace_delivered_gap_seconds:quantile_rate5m"

BOARD = Board(
    "voicepace-call-quality",
    "voicepace: Call quality",
    "What callers hear: gaps, stutter, first sound, interrupts.",
    (
        (
            "Gaps between tokens",
            (
                Panel(
                    "When did delivered gaps exceed 20 ms?",
                    "s",
                    "Gaps between tokens sent, by length and time; unpaced OpenAI streams left out. All of it "
                    "should lie "
                    "at or under 20 ms. A band above it is a slow engine, single specks are single stalls.",
                    (
                        Query(
                            f"sum by (le) (increase(voicepace_delivered_gap_seconds_bucket{{{PACED}}}[$__rate_interval]))",
                            "{{le}}",
                        ),
                    ),
                    kind="heatmap",
                ),
                Panel(
                    "How long are the gaps that callers get?",
                    "s",
                    "Percentiles of the delivered gap against the 20 ms line. The median sits near 18 ms by "
                    "design of "
                    "the pacer; the 99th percentile is what the objective is about.",
                    (
                        Query(f'{GAP}{{{JOB},quantile="0.5"}}', "p50 {{model}}"),
                        Query(f'{GAP}{{{JOB},quantile="0.95"}}', "p95 {{model}}"),
                        Query(f'{GAP}{{{JOB},quantile="0.99"}}', "p99 {{model}}"),
                    ),
                    line=OBJECTIVE_S,
                ),
                Panel(
                    "What share of the gaps is within 20 ms?",
                    "percentunit",
                    "Counted at an exact bucket edge, by surface. The objective is a share over 30 days, 99 % by "
                    "default.",
                    (
                        Query(
                            f'sum by (surface) (rate(voicepace_delivered_gap_seconds_bucket{{{PACED},le="0.02"}}'
                            "[$__rate_interval])) / (sum by (surface) "
                            f"(rate(voicepace_delivered_gap_seconds_count{{{PACED}}}[$__rate_interval])) > 0)",
                            "{{surface}}",
                        ),
                    ),
                    width=8,
                ),
                Panel(
                    "How much stutter do callers hear?",
                    "percentunit",
                    "Time by which gaps exceeded 20 ms, per second of call. One long silence counts for its length, "
                    "which a share of gaps would hide.",
                    (Query(f"job:voicepace_starved:ratio_rate5m{{{JOB}}}", "starved"),),
                    width=8,
                ),
                Panel(
                    "How much of the 30 days' error budget is left?",
                    "percentunit",
                    "1 is all of it, 0 none, below 0 the objective is missed. Empty where the profile promises "
                    "nothing "
                    "(server.objective_ratio is not set).",
                    (
                        Query(
                            f"1 - job_model:voicepace_delivered_gap_error:ratio_rate30d{{{JOB}}}"
                            f" / on (job, model) (1 - max by (job, model) (voicepace_objective_ratio{{{JOB}}}))",
                            "{{model}}",
                        ),
                    ),
                    kind="number",
                    width=8,
                ),
            ),
        ),
        (
            "Speech",
            (
                Panel(
                    "How long until the first sound, and which stage takes it?",
                    "s",
                    "95th percentile by stage, from the caller's words to the first audio frame. Act on the stage"
                    " that grew: "
                    "queue, prefill, segment, synthesis, framing.",
                    (
                        Query(
                            f'job_model_stage:voicepace_first_audio_seconds:quantile_rate5m{{{JOB},quantile="0.95"}}',
                            "{{stage}}",
                        ),
                    ),
                ),
                Panel(
                    "How long until the first token?",
                    "s",
                    "From the caller's words to the first token sent: queueing, prefill and the pacer's first hold.",
                    (
                        Query(quantile(0.5, "voicepace_ttft_seconds", by="le, surface"), "p50 {{surface}}"),
                        Query(quantile(0.95, "voicepace_ttft_seconds", by="le, surface"), "p95 {{surface}}"),
                    ),
                ),
                Panel(
                    "Do replies break off into silence?",
                    "percentunit",
                    "Silence inside replies because audio came late, per second of call. Above zero a listener "
                    "hears it.",
                    (Query(f"job:voicepace_tts_underrun:ratio_rate5m{{{JOB}}}", "silence"),),
                    width=8,
                ),
                Panel(
                    "How fast does the agent fall silent when interrupted?",
                    "s",
                    "95th percentile from an interrupt until nothing of the old reply leaves, and until the "
                    "engine is told "
                    "to stop. Silence needs only the event loop: tens of milliseconds mean the loop is busy.",
                    (
                        Query(
                            f'job_model:voicepace_barge_in_to_silence_seconds:quantile_rate5m{{{JOB},quantile="0.95"}}',
                            "to silence",
                        ),
                        Query(quantile(0.95, "voicepace_barge_in_to_abort_seconds"), "to abort"),
                    ),
                    width=8,
                ),
                Panel(
                    "How do replies end?",
                    "cps",
                    "Replies per second by how they ended. Errors should be none; a rise of `interrupted` says that "
                    "callers do not want to hear the rest.",
                    (Query(f"sum by (reason) (rate(voicepace_turns_total{{{JOB}}}[$__rate_interval]))", "{{reason}}"),),
                    width=8,
                ),
            ),
        ),
    ),
)
