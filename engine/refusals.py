"""What is refused before the engine sees it, by the name of the parameter at fault. Pure."""

from engine.api import GenerateRequest, RequestRefused


def check(request: GenerateRequest, max_model_len: int, vocabulary: int) -> None:
    """Refuse a request that the engine would refuse later or less clearly.

    Args:
        request: as asked.
        max_model_len: prompt and reply together, tokens.
        vocabulary: ids below this exist.

    Raises:
        RequestRefused: naming the parameter.
    """
    prompt, sampling = request.prompt_token_ids, request.sampling
    if not prompt:
        raise RequestRefused("prompt", "is empty")
    if len(prompt) >= max_model_len:
        raise RequestRefused("prompt", f"{len(prompt)} tokens leave no room in {max_model_len}")
    if not all(0 <= token < vocabulary for token in prompt):
        raise RequestRefused("prompt", f"holds a token id that is not one of {vocabulary}")
    for wrong, parameter, reason in (
        (sampling.max_tokens < 1, "max_tokens", "must be at least 1"),
        (not 0 <= sampling.temperature <= 100, "temperature", "must be from 0 to 100"),
        (not 0 < sampling.top_p <= 1, "top_p", "must be over 0 and at most 1"),
        (sampling.top_k < 0, "top_k", "must be 0 (no limit) or more"),
        (not 0 < sampling.repetition_penalty <= 100, "repetition_penalty", "must be over 0 and at most 100"),
        (not all(sampling.stop), "stop", "must not hold an empty string"),
    ):
        if wrong:
            raise RequestRefused(parameter, reason)
