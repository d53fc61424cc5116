"""Where the platform is and who the caller is: from arguments, else variables, else the data directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from pydantic_core import from_json

from ._request import Service

IdTokenSource = str | Callable[[], str]

_DEFAULTS: dict[Service, str] = {
    "vector": "http://127.0.0.1:8080",
    "main": "http://127.0.0.1:8081",
    "run": "http://127.0.0.1:8082",
    "hub": "http://127.0.0.1:8083",
    "webhook": "http://127.0.0.1:9090",
}
_VARIABLES: dict[Service, tuple[str, ...]] = {
    "vector": ("FLOTILLA_VECTOR_URL",),
    "main": ("FLOTILLA_BASE_URL",),
    "run": ("FLOTILLA_RUN_URL",),
    "hub": ("FLOTILLA_HUB_URL",),
    "webhook": ("FLOTILLA_WEBHOOK_URL", "WEBHOOK_GATEWAY"),
}
# As the platform writes them into run/addresses.json.
_WRITTEN: dict[Service, str] = {
    "vector": "vector_url",
    "main": "base_url",
    "run": "agent_gateway_url",
    "hub": "hub_url",
    "webhook": "webhook_url",
}


@dataclass(frozen=True)
class Options:
    """What the constructor of a client was given."""

    agent_id: str | None = None
    private_key_file: str | Path | None = None
    private_key_pem: str | bytes | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    agent_key: str | None = field(default=None, repr=False)
    id_token: IdTokenSource | None = field(default=None, repr=False)
    home: str | Path | None = None
    urls: Mapping[Service, str | None] = field(default_factory=dict)
    identity_exchange_url: str | None = None
    web_api_key: str | None = None


@dataclass(frozen=True)
class Settings:
    """What a client works with; the key is read at the first handshake."""

    addresses: Mapping[Service, str]
    exchange_url: str | None
    web_api_key: str
    agent_id: str | None
    read_pem: Callable[[], bytes] | None = field(repr=False)
    api_key: str | None = field(repr=False)
    agent_key: str | None = field(repr=False)
    id_token: IdTokenSource | None = field(repr=False)
    missing: str
    """What to do where there is no credential."""


def settings_of(options: Options, environ: Mapping[str, str]) -> Settings:
    """The settings of a client. Raises ValueError for an address that is none."""
    home = Path(options.home or environ.get("FLOTILLA_HOME") or ".flotilla")
    written = _addresses_in(home)
    addresses = {
        service: _address(
            options.urls.get(service)
            or next((environ[name] for name in _VARIABLES[service] if environ.get(name)), None)
            or written.get(_WRITTEN[service])
            or default
        )
        for service, default in _DEFAULTS.items()
    }
    exchange = (
        options.identity_exchange_url
        or environ.get("FLOTILLA_IDENTITY_EXCHANGE_URL")
        or written.get("identity_exchange_url")
    )
    who = _with_variables(options, environ)
    agent_id, read_pem, missing = _signer(who, home)
    return Settings(
        addresses,
        _address(exchange) if exchange else None,
        options.web_api_key or environ.get("FLOTILLA_WEB_API_KEY") or "local",
        agent_id,
        read_pem,
        who.api_key,
        who.agent_key,
        who.id_token,
        missing,
    )


def _with_variables(options: Options, environ: Mapping[str, str]) -> Options:
    """A credential that was given leaves the variables alone: they may be those of another agent."""
    given = (options.private_key_file, options.private_key_pem, options.api_key, options.agent_key, options.id_token)
    if any(one is not None for one in given) or options.agent_id is not None:
        return options
    return Options(
        agent_id=environ.get("FLOTILLA_AGENT_ID") or None,
        private_key_file=environ.get("FLOTILLA_PRIVATE_KEY_FILE") or None,
        api_key=environ.get("FLOTILLA_API_KEY") or None,
        agent_key=environ.get("FLOTILLA_AGENT_KEY") or None,
        id_token=environ.get("FLOTILLA_ID_TOKEN") or None,
    )


def _signer(who: Options, home: Path) -> tuple[str | None, Callable[[], bytes] | None, str]:
    """The agent that signs handshakes, how its key is read, and what to do where there is none."""
    agent_id = who.agent_id
    if who.private_key_pem is not None or who.private_key_file is not None:
        if agent_id is None:
            raise ValueError("a private key needs the id of its agent: give agent_id, or set FLOTILLA_AGENT_ID")
        pem = who.private_key_pem
        if pem is not None:
            data = pem.encode() if isinstance(pem, str) else pem
            return agent_id, lambda: data, ""
        file = Path(who.private_key_file or "")
        return agent_id, file.read_bytes, ""
    if who.api_key is not None:
        return agent_id, None, ""
    agents = home / "agents"
    if agent_id is not None:
        return agent_id, (agents / agent_id / "ed25519.pem").read_bytes, ""
    if who.agent_key is not None or who.id_token is not None:
        return None, None, ""
    found = _agents_in(home)
    if len(found) == 1:
        return found[0], (agents / found[0] / "ed25519.pem").read_bytes, ""
    if not found:
        return (
            None,
            None,
            f"there is no agent in {agents}: provision one, or set FLOTILLA_AGENT_ID and FLOTILLA_PRIVATE_KEY_FILE",
        )
    return None, None, f"there are several agents in {agents}: set FLOTILLA_AGENT_ID to one of {', '.join(found)}"


def _agents_in(home: Path) -> list[str]:
    """Agents whose key lies in the data directory, without those that the platform made for itself."""
    own = _object_in(home / "reference-nodes.json").get("provisioned", [])
    try:
        folders = sorted((home / "agents").iterdir())
    except OSError:
        return []
    return [folder.name for folder in folders if (folder / "ed25519.pem").is_file() and folder.name not in own]


def _addresses_in(home: Path) -> dict[str, str]:
    written = _object_in(home / "run" / "addresses.json")
    return {name: value for name, value in written.items() if isinstance(value, str)}


def _object_in(file: Path) -> dict[str, Any]:
    """Nothing where there is no such file, or it may not be read."""
    try:
        value = from_json(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _address(given: str) -> str:
    """An address without a slash at its end; the relay's may be `host:port`."""
    text = given if "://" in given else f"http://{given}"
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        # An address may hold a password.
        raise ValueError("an address of the platform is no http or https URL")
    return text.rstrip("/")
