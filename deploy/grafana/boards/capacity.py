"""How much more a service can take."""

from deploy.grafana.boards.panel import JOB, OBJECTIVE_S, Board, Panel, Query

BOARD = Board(
    "voicepace-capacity",
    "voicepace: Capacity",
    "How much more it can take.",
    (
        (
            "Calls",
            (
                Panel(
                    "How many calls are there, and how many could there be?",
                    "none",
                    "Calls in progress against the limit of all replicas together, and on the right the share in use.",
                    (
                        Query(f"job:voicepace_calls:sum{{{JOB}}}", "calls"),
                        Query(f"sum(voicepace_calls_limit{{{JOB}}})", "limit"),
                        Query(f"job:voicepace_calls_utilisation:ratio{{{JOB}}}", "in use", right_axis=True),
                    ),
                    right_unit="percentunit",
                ),
                Panel(
                    "Do callers wait, or are they turned away?",
                    "none",
                    "Calls that wait for a place, and on the right calls refused per second, by reason. "
                    "`capacity` and `objective` "
                    "ask for a replica; `auth` for a look at who is calling.",
                    (
                        Query(f"sum(voicepace_calls_waiting{{{JOB}}})", "waiting"),
                        Query(
                            f"sum by (reason) (job_reason:voicepace_calls_refused:rate5m{{{JOB}}})",
                            "refused: {{reason}}",
                            right_axis=True,
                        ),
                    ),
                    right_unit="cps",
                ),
                Panel(
                    "Which gap must the next caller expect?",
                    "s",
                    "Delivered gap predicted for the calls in progress, from step time against batch size, worst "
                    "replica. Autoscaling follows it.",
                    (Query(f"job:voicepace_predicted_gap_seconds:max{{{JOB}}}", "predicted gap"),),
                    line=OBJECTIVE_S,
                ),
                Panel(
                    "Is the engine alive?",
                    "bool_yes_no",
                    "1 while an engine is loaded, warm and alive. The service restarts a dead one by itself.",
                    (Query(f"voicepace_engine_up{{{JOB}}}", "{{instance}}"),),
                    width=6,
                ),
                Panel(
                    "What runs?",
                    "none",
                    "Replicas by profile, speculation and version. More than one line where one is meant is a "
                    "half-done rollout.",
                    (
                        Query(
                            f"count by (version, profile, speculation, model) (voicepace_build_info{{{JOB}}})",
                            "{{profile}} {{speculation}} {{version}}",
                        ),
                    ),
                    kind="number",
                    width=6,
                ),
            ),
        ),
        (
            "Engine",
            (
                Panel(
                    "How many replies are generated, and how many wait?",
                    "none",
                    "Requests in the batch and in the engine's queue. A queue means that engine.max_num_seqs or "
                    "the KV cache is too small.",
                    (
                        Query(f"sum(vllm:num_requests_running{{{JOB}}})", "running"),
                        Query(f"sum(vllm:num_requests_waiting{{{JOB}}})", "waiting"),
                    ),
                    width=8,
                ),
                Panel(
                    "How full is the KV cache?",
                    "percentunit",
                    "Share of the KV cache in use, fullest replica. At 1 requests are preempted and begun again.",
                    (Query(f"max(vllm:kv_cache_usage_perc{{{JOB}}})", "in use"),),
                    width=8,
                ),
                Panel(
                    "How often are requests pushed out?",
                    "cps",
                    "Preemptions per second: each makes a caller wait for a whole prompt. Should be none.",
                    (Query(f"sum(rate(vllm:num_preemptions_total{{{JOB}}}[$__rate_interval]))", "preemptions"),),
                    width=8,
                ),
                Panel(
                    "Are histories found in the prefix cache?",
                    "percentunit",
                    "Share of prompt tokens found there. Prompts of a call only grow, so all but the newest turn "
                    "should be.",
                    (Query(f"job:vllm_prefix_cache_hits:ratio_rate10m{{{JOB}}}", "hits"),),
                    width=8,
                ),
                Panel(
                    "How busy is the service's own process?",
                    "percentunit",
                    "Cores in use by the process that paces and sends; the engine and the voice have their own. "
                    "Near 1 gaps grow.",
                    (Query(f"rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval])", "{{instance}}"),),
                    width=8,
                ),
                Panel(
                    "Does the service's own process grow?",
                    "bytes",
                    "Resident memory of that process. It follows the calls; growth without calls is a leak.",
                    (Query(f"process_resident_memory_bytes{{{JOB}}}", "{{instance}}"),),
                    width=8,
                ),
            ),
        ),
        (
            "GPU",
            (
                Panel(
                    "How busy is memory traffic?",
                    "percentunit",
                    "Share of cycles in which GPU memory moves data: what limits decoding. Steps cannot get "
                    "shorter than this allows.",
                    (Query("DCGM_FI_PROF_DRAM_ACTIVE", "GPU {{gpu}}"),),
                    needs_gpu=True,
                    width=6,
                ),
                Panel(
                    "How busy are the GPUs?",
                    "percent",
                    "Share of time with any kernel running: near 100 % while replies are generated.",
                    (Query("DCGM_FI_DEV_GPU_UTIL", "GPU {{gpu}}"),),
                    needs_gpu=True,
                    width=6,
                ),
                Panel(
                    "How full is GPU memory?",
                    "percentunit",
                    "Weights and KV cache are taken at the start, so this is a flat line at "
                    "engine.gpu_memory_utilization.",
                    (
                        Query(
                            "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
                            "GPU {{gpu}}",
                        ),
                    ),
                    needs_gpu=True,
                    width=6,
                ),
                Panel(
                    "Is the power limit reached?",
                    "watt",
                    "An L4 is limited to 72 W and lowers its clocks there: step time then rises at the same batch.",
                    (Query("DCGM_FI_DEV_POWER_USAGE", "GPU {{gpu}}"),),
                    needs_gpu=True,
                    width=6,
                ),
            ),
        ),
    ),
)
