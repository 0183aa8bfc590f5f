import pytest

from engine.arguments import speculative_config
from engine.bench.published_arms import ARMS, Assets, arm, base_settings
from engine.bench.published_prompts import DIALOGUES

DEMO = base_settings("cpu-demo", {})


def test_the_embedded_model_computes_in_float32_unless_told_otherwise() -> None:
    assert DEMO["dtype"] == "float32"
    assert base_settings("cpu-demo", {"dtype": "bfloat16"})["dtype"] == "bfloat16"
    assert "dtype" not in base_settings("cpu-demo", {"model": "owner/name", "dtype": None})


def test_a_profiles_own_speculation_is_left_out() -> None:
    plain = arm("none", base_settings("l4-llama3-8b", {}), Assets()).options
    assert plain is not None
    assert (plain.speculation, plain.heads, plain.max_num_seqs) == ("none", None, 16)


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(ValueError, match="there is no tpu"):
        base_settings("tpu", {})


@pytest.mark.parametrize("name", ["none", "ngram"])
def test_what_needs_nothing_runs(name: str) -> None:
    found = arm(name, DEMO, Assets(drafts=3)).options
    assert found is not None
    assert found.speculation == name
    assert found.num_speculative_tokens == (None if name == "none" else 3)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("draft_model", "no draft model: give --draft-model"),
        ("eagle", "no heads: give --eagle-head"),
        ("eagle3", "no heads: give --eagle3-head"),
    ],
)
def test_what_is_missing_is_named(name: str, reason: str) -> None:
    found = arm(name, DEMO, Assets())
    assert (found.options, found.reason) == (None, reason)


@pytest.mark.parametrize("name", ["medusa", "medusa_tree"])
def test_the_embedded_model_has_heads_and_others_need_theirs(name: str) -> None:
    found = arm(name, DEMO, Assets()).options
    assert found is not None
    assert found.heads_name == "shipped"
    other = arm(name, {**DEMO, "model": "owner/name"}, Assets())
    assert (other.options, other.reason) == (None, "no heads: give --heads")


@pytest.mark.parametrize(
    ("name", "assets", "model"),
    [
        ("draft_model", Assets(draft_model="small"), "small"),
        ("medusa", Assets(medusa_heads="heads"), "heads"),
        ("eagle", Assets(eagle_head="one"), "one"),
        ("eagle3", Assets(eagle3_head="three"), "three"),
    ],
)
def test_what_is_given_is_configured(name: str, assets: Assets, model: str) -> None:
    found = arm(name, DEMO, assets).options
    assert found is not None
    config = speculative_config(found)
    assert config is not None
    assert (config["method"], config["model"]) == (name, model)


def test_what_the_options_refuse_is_the_reason() -> None:
    found = arm("ngram", {**DEMO, "prompt_lookup_max": 0}, Assets())
    assert found.options is None
    assert found.reason.startswith("prompt_lookup_max:")


def test_every_arm_is_either_configured_or_refused_with_a_reason() -> None:
    for name in ARMS:
        found = arm(name, DEMO, Assets())
        assert (found.options is None) == bool(found.reason)


def test_prompts_are_different_and_as_many_of_each_kind() -> None:
    assert set(DIALOGUES) == {"conversational", "code", "json", "multi_turn"}
    everything = [dialogue for dialogues in DIALOGUES.values() for dialogue in dialogues]
    assert {len(dialogues) for dialogues in DIALOGUES.values()} == {8}
    assert len({dialogue.name for dialogue in everything}) == 32
    assert len({str(dialogue.turns) for dialogue in everything}) == 32


def test_each_turn_goes_on_from_the_one_before_and_ends_with_the_caller() -> None:
    for dialogue in DIALOGUES["multi_turn"]:
        assert len(dialogue.turns) == 3
        for before, after in zip(dialogue.turns, dialogue.turns[1:], strict=False):
            assert after[: len(before)] == before
            assert [message["role"] for message in after[len(before) :]] == ["assistant", "user"]
        assert all(turn[-1]["role"] == "user" for turn in dialogue.turns)
