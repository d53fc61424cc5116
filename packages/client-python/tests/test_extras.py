"""Adapters of frameworks are imported by those who have the framework, and by nobody else."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

FRAMEWORKS = {
    "adk": "google.adk",
    "crewai": "crewai",
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "llamaindex": "llama_index",
}


def test_the_client_imports_no_framework() -> None:
    names = [name.partition(".")[0] for name in FRAMEWORKS.values()]
    program = f"import flotilla_client, sys; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_an_adapter_without_its_framework_names_the_extra(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if f"flotilla_client.{extra}" in name]:
        monkeypatch.delitem(sys.modules, name)
    framework = FRAMEWORKS[extra]
    for name in [name for name in sys.modules if name.startswith(f"{framework}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ImportError, match=rf"pip install 'flotilla-client\[{extra}\]'"):
        importlib.import_module(f"flotilla_client.{extra}")
