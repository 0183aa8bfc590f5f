"""Settings: precedence, unknown and malformed keys, and that the environment is read here alone."""

from pathlib import Path

import pytest

from engine.profiles import PROFILES
from service.server import planned
from service.settings import SettingsError, keys, load_settings


def test_a_flag_wins_over_the_environment_over_the_file_over_the_profile(tmp_path: Path) -> None:
    file = tmp_path / "voicepace.toml"
    file.write_text("[server]\nport = 3\nmax_calls = 3\n[engine]\nmax_num_seqs = 3\n")
    environ = {"VOICEPACE_SERVER__PORT": "2", "VOICEPACE_SERVER__MAX_CALLS": "2", "HOME": "/nowhere"}
    settings = load_settings({"server.port": "1"}, file, environ)
    assert (settings.server.port, settings.server.max_calls, settings.engine.max_num_seqs) == (1, 2, 3)
    assert settings.engine.max_model_len == PROFILES["cpu-demo"].settings["engine"]["max_model_len"]


@pytest.mark.parametrize(
    ("environ", "key"),
    [
        ({"VOICEPACE_ENGINE__MODLE": "x"}, "engine.modle"),
        ({"VOICEPACE_PORT": "1"}, "port"),
        ({"VOICEPACE_SERVER__PORT": "http"}, "server.port"),
        ({"VOICEPACE_SERVER__PORT": "70000"}, "server.port"),
        ({"VOICEPACE_VOICE__NAMES": '["piper"'}, "voice.names"),
        ({"VOICEPACE_ENGINE__SPECULATION": "magic"}, "engine.speculation"),
        ({"VOICEPACE_PROFILE": "l5"}, "profile"),
    ],
)
def test_a_wrong_key_or_value_in_the_environment_is_named(environ: dict[str, str], key: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_settings(environ=environ)
    assert str(error.value).startswith(key)


def test_a_wrong_key_in_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "voicepace.toml"
    file.write_text("[server]\nprot = 3\n")
    with pytest.raises(SettingsError, match=r"^server\.prot: there is no such setting"):
        load_settings(None, file, {})
    file.write_text("[server\n")
    with pytest.raises(SettingsError, match=r"voicepace\.toml"):
        load_settings(None, file, {})
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(None, tmp_path / "absent.toml", {})


def test_every_fault_is_reported_at_once() -> None:
    with pytest.raises(SettingsError) as error:
        load_settings({"server.port": "x", "pacing.slo_ms": "y"}, environ={})
    assert {line.split(":")[0] for line in str(error.value).splitlines()} == {"server.port", "pacing.slo_ms"}


def test_lists_are_json_and_names_may_be_several() -> None:
    settings = load_settings({"voice.names": '["piper", "tone"]', "engine.served_model_name": '["a", "b"]'}, environ={})
    assert settings.voice.names == ("piper", "tone")
    assert settings.engine.served_model_name == ("a", "b")


def test_speculation_names_what_it_lacks() -> None:
    for method, missing in (("draft_model", "draft_model"), ("eagle", "heads"), ("eagle3", "heads")):
        with pytest.raises(SettingsError, match=missing):
            load_settings({"engine.speculation": method}, environ={})


def test_every_setting_says_what_it_is() -> None:
    assert all(description for description, _ in keys().values())


def test_keys_never_show_in_a_settings_dump() -> None:
    settings = load_settings({"auth.api_keys": '["hunter2"]'}, environ={})
    assert "hunter2" not in repr(settings)


def test_a_profile_for_a_known_gpu_says_whether_it_meets_the_objective() -> None:
    assert "does not meet 20 ms" in planned("l4-llama3-8b")
    assert "meets 20 ms" in planned("l4-llama3-8b-fp8")
    assert planned("cpu-demo") == ""
