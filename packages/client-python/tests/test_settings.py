"""Addresses and credentials: arguments, else variables, else the data directory, else the default ports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flotilla_client import Flotilla, FlotillaError
from flotilla_client._settings import Options, settings_of


def directory(home: Path, *agents: str, own: tuple[str, ...] = ()) -> None:
    for name in (*agents, *own):
        folder = home / "agents" / name
        folder.mkdir(parents=True)
        (folder / "ed25519.pem").write_text(f"key of {name}")
    (home / "run").mkdir()
    (home / "run" / "addresses.json").write_text(
        json.dumps({"vector_url": "http://127.0.0.1:1", "agent_gateway_url": "http://127.0.0.1:2", "pid": 7})
    )
    (home / "reference-nodes.json").write_text(json.dumps({"port": 8084, "provisioned": list(own)}))


def test_without_anything_the_default_ports_are_meant(tmp_path: Path) -> None:
    settings = settings_of(Options(home=tmp_path), {})
    ports = {service: url.rpartition(":")[2] for service, url in settings.addresses.items()}
    assert ports == {"vector": "8080", "main": "8081", "run": "8082", "hub": "8083", "webhook": "9090"}


def test_arguments_come_before_variables_and_those_before_the_data_directory(tmp_path: Path) -> None:
    directory(tmp_path, "rover")
    environ = {
        "FLOTILLA_HOME": str(tmp_path),
        "FLOTILLA_RUN_URL": "http://127.0.0.1:22/",
        "FLOTILLA_HUB_URL": "http://127.0.0.1:33",
        "WEBHOOK_GATEWAY": "127.0.0.1:99",
    }
    settings = settings_of(Options(urls={"hub": "https://hub.test/below/"}), environ)
    assert settings.addresses == {
        "vector": "http://127.0.0.1:1",
        "main": "http://127.0.0.1:8081",
        "run": "http://127.0.0.1:22",
        "hub": "https://hub.test/below",
        "webhook": "http://127.0.0.1:99",
    }


@pytest.mark.parametrize("url", ["ftp://user:secret@a", "http://", "http://user:secret@:80:80"])
def test_an_address_that_is_none_is_reported_without_its_text(url: str) -> None:
    with pytest.raises(ValueError, match="no http or https URL") as raised:
        settings_of(Options(urls={"hub": url}), {})
    assert "secret" not in str(raised.value)


def test_the_only_agent_of_the_data_directory_is_meant_without_those_of_the_platform(tmp_path: Path) -> None:
    directory(tmp_path, "rover", own=("atlas", "whale"))
    settings = settings_of(Options(), {"FLOTILLA_HOME": str(tmp_path)})
    assert settings.agent_id == "rover"
    assert settings.read_pem is not None
    assert settings.read_pem() == b"key of rover"


def test_several_agents_are_named_at_the_first_call_that_needs_one(tmp_path: Path) -> None:
    directory(tmp_path, "rover", "scout")
    with Flotilla(home=tmp_path) as fleet, pytest.raises(FlotillaError, match="one of rover, scout") as raised:
        fleet.memory.count("posts")
    assert (raised.value.code, raised.value.status) == ("no_credential", 0)


def test_no_agent_at_all_says_what_to_do(tmp_path: Path) -> None:
    with Flotilla(home=tmp_path) as fleet, pytest.raises(FlotillaError, match="provision one"):
        fleet.notes.create("s", "b")


def test_variables_name_an_agent_and_its_key(tmp_path: Path) -> None:
    directory(tmp_path, "rover", "scout")
    file = tmp_path / "other.pem"
    file.write_text("other key")
    named = settings_of(Options(home=tmp_path), {"FLOTILLA_AGENT_ID": "scout"})
    assert named.read_pem is not None
    assert named.read_pem() == b"key of scout"
    variables = {"FLOTILLA_AGENT_ID": "scout", "FLOTILLA_PRIVATE_KEY_FILE": str(file), "FLOTILLA_AGENT_KEY": "svc_1"}
    both = settings_of(Options(home=tmp_path), variables)
    assert both.read_pem is not None
    assert (both.read_pem(), both.agent_key) == (b"other key", "svc_1")


def test_a_credential_that_is_given_leaves_the_variables_alone(tmp_path: Path) -> None:
    environ = {"FLOTILLA_AGENT_ID": "scout", "FLOTILLA_AGENT_KEY": "svc_1", "FLOTILLA_ID_TOKEN": "t"}
    settings = settings_of(Options(home=tmp_path, api_key="vk_live_1"), environ)
    assert (settings.agent_id, settings.agent_key, settings.id_token) == (None, None, None)


def test_a_key_without_the_id_of_its_agent_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the id of its agent"):
        Flotilla(private_key_pem="key")


def test_an_option_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="agent_name"):
        Flotilla(agent_name="scout")  # type: ignore[call-arg]
