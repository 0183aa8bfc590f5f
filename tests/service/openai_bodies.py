"""Generated request bodies over every parameter the endpoints document: good values, limits, and nonsense."""

import random
from collections.abc import Iterator
from typing import Any

Values = dict[str, list[Any]]

LONG = "word " * 1200
"""More tokens than one prefill chunk of the profile `cpu-demo`."""

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather", "parameters": SCHEMA}}

BOTH: Values = {
    "model": ["nope", None, 5],
    "frequency_penalty": [0, 0.5, -2, 2, 3, "x"],
    "presence_penalty": [0, -2, 2, 1.5, -3],
    "repetition_penalty": [1.0, 1.3, 0.1, 1e-300, 1e30, 0, -1, 100],
    "logit_bias": [{"5": 3}, {"5": -100}, {"99999999": 1}, {"x": 1}, {}, {"-1": 2}, {"5": 1e308}],
    "max_tokens": [1, 0, -1, 5, 2**40, 2**70],
    "n": [1, 2, 3, 0, -1, 1000, None],
    "seed": [0, 1, -1, 2**63 - 1, -(2**63), 2**64],
    "stop": ["a", [" ", "e"], [], "", ["", ""], ["x"] * 40, "\ufffd", "é", None, "\u0000"],
    "stream": [True, False, None],
    "stream_options": [{"include_usage": True}, {}, {"include_usage": True, "continuous_usage_stats": True}, None],
    "temperature": [0, 1e-6, 0.5, 1, 2, 2.1, -1, None],
    "top_p": [1, 0.5, 1e-9, 0, 1.1, -1],
    "user": ["u", 5],
    "use_beam_search": [True, False],
    "top_k": [0, -1, 1, 5, 49151, 49152, 60000, 2**31 - 1, 2**31, 2**40, 2**63, -5],
    "min_p": [0, 0.1, 1, 1.5, -1],
    "watermarking": [True, False],
    "length_penalty": [1.0, 0, -1, 1e300],
    "stop_token_ids": [[], [1, 2], [99999999], [-1], [2**40], list(range(200))],
    "include_stop_str_in_output": [True],
    "ignore_eos": [True],
    "min_tokens": [0, 1, 5, 1000000, -1, 2**40],
    "skip_special_tokens": [False],
    "spaces_between_special_tokens": [False],
    "truncate_prompt_tokens": [-1, 0, 1, 5, 100000, 2**62, -2],
    "truncation_side": ["left", "right", "x"],
    "allowed_token_ids": [[], [1], [5, 6, 7], [-1], [99999999], list(range(3000)), [2**40]],
    "prompt_logprobs": [0, 1, 5, 20, 21, -1, -2, 10**6],
    "logprob_token_ids": [[1], [1, 2, 3], [], [-1], [99999999], list(range(200))],
    "bad_words": [["a"], ["hello", "the"], [""], ["\u0000"], ["x"] * 2000, [" "]],
    "response_format": [
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "nonsense"}}},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"$ref": "#"}}},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "array", "minItems": 100000}}},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": False}},
        {"type": "structural_tag", "format": {"type": "x"}},
    ],
    "structured_outputs": [
        {"choice": ["yes", "no"]},
        {"choice": []},
        {"regex": "[0-9]{3}"},
        {"regex": "("},
        {"regex": "(a+)+b"},
        {"regex": "(?=a)b"},
        {"regex": "\\p{L}+"},
        {"grammar": 'root ::= "a" | "b"'},
        {"grammar": "x"},
        {"grammar": "root ::= root"},
        {"json": {"type": "string", "pattern": "("}},
        {"json": "x"},
        {"json_object": True},
        {"structural_tag": "{}"},
        {},
        {"choice": ["a"], "regex": "b"},
    ],
    "priority": [0, 1, -5, 2**63 - 1],
    "request_id": ["abc", "", "x" * 3000],
    "session_id": ["s", "", "x" * 2000],
    "return_tokens_as_token_ids": [True],
    "return_token_ids": [True],
    "routed_experts_prompt_start": [0, 5, -1],
    "return_token_offsets": [True],
    "mm_payload": ["none", "tensors", "x"],
    "return_mm_kwargs": [False],
    "cache_salt": ["abc", "", "x" * 2000, "a/b"],
    "kv_transfer_params": [{}, {"do_remote_prefill": True}, {"do_remote_decode": True}, {"a": [1, {"b": None}]}],
    "ec_transfer_params": [{}, {"a": 1}],
    "vllm_xargs": [{"a": 1}, {"a": [1, "b"]}, {"a": 2**70}, {"a": None}, {"kv_transfer_params": "x"}],
    "repetition_detection": [
        {"max_pattern_size": 5, "min_pattern_size": 1, "min_count": 2},
        {"max_pattern_size": -1},
        {"max_pattern_size": 2**40, "min_count": 2},
        {},
    ],
    "thinking_token_budget": [0, 5, -1, -2],
    "stream_interval": [1, 2, 5, 0, 1000000, 2**40],
    "add_special_tokens": [True, False],
    "pacing": [True, False, {}, {"max_first_hold_ms": 50}, {"max_first_hold_ms": -1}, {"x": 1}, "yes"],
}
COMPLETION: Values = {
    "prompt": [
        ["a", "b"],
        [1, 2, 3],
        [[1, 2], [3]],
        "",
        [],
        [[]],
        [49152],
        [-1],
        [2**40],
        LONG,
        "\u0000",
        "\ud800",
        " ",
        None,
        [2] * 2047,
        [2] * 3000,
        ["", ""],
        "<|im_end|>",
        "🙂" * 100,
    ],
    "echo": [True],
    "logprobs": [0, 1, 5, 20, 21, -1, -2, True, "x"],
    "suffix": ["x", ""],
    "prompt_embeds": ["x", "AAAA", ["AAAA"], []],
}
CHAT: Values = {
    "messages": [
        [],
        [{"role": "system", "content": "s"}, {"role": "user", "content": "Hi"}],
        [{"role": "user", "content": LONG}],
        [{"role": "nobody", "content": "x"}],
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}}]}],
        [{"role": "user"}],
        [{"role": "tool", "tool_call_id": "1", "content": "5"}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "assistant", "content": "partial"}],
        [{"content": "x"}],
        "x",
    ],
    "logprobs": [True, False],
    "top_logprobs": [0, 1, 5, 20, 21, -1, None],
    "max_completion_tokens": [1, 0, -1, 5, 8],
    "tools": [[], [TOOL], [{"type": "function", "function": {"name": "f"}}], [{"type": "x"}]],
    "tool_choice": ["none", "auto", "required", {"type": "function", "function": {"name": "weather"}}, "x", None],
    "parallel_tool_calls": [True, False],
    "reasoning_effort": ["low", "none", "x"],
    "include_reasoning": [False],
    "echo": [True],
    "add_generation_prompt": [False],
    "continue_final_message": [True],
    "documents": [[{"title": "a", "text": "b"}], []],
    "chat_template": ["{{ messages[0].content }}", "{% for", "{{ 1/0 }}"],
    "chat_template_kwargs": [{"a": 1}, {"messages": []}, {"tokenize": True}, {"max_length": 3}],
    "media_io_kwargs": [{}, {"image": {}}],
    "mm_processor_kwargs": [{}, {"a": 1}],
    "return_prompt_text": [True],
}
ENDPOINTS: dict[str, tuple[Values, dict[str, Any]]] = {
    "/v1/completions": (BOTH | COMPLETION, {"prompt": "Count to ten: one, two,"}),
    "/v1/chat/completions": (BOTH | CHAT, {"messages": [{"role": "user", "content": "Count to ten."}]}),
}
# Parameters whose pairs reach most of the engine.
HOT = ("n", "seed", "stop", "stream", "structured_outputs", "top_k", "repetition_penalty", "prompt", "messages")


def bodies(seed: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """`count` requests (path, body): single parameters and pairs in turn, the same ones for the same seed."""
    choose = random.Random(seed)
    for number in range(count):
        path = choose.choice(list(ENDPOINTS))
        values, base = ENDPOINTS[path]
        names = choose.sample(sorted(values), 1 + number % 2)
        if number % 4 == 3:
            names[0] = choose.choice([name for name in HOT if name in values])
        body = base | {"max_tokens": 5} | {name: choose.choice(values[name]) for name in names}
        if choose.random() < 0.4:
            body.setdefault("stream", True)
        yield path, body
