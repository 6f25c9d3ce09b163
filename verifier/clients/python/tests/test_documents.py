"""The Python examples of the documents run. Classes of the trainers are stand-ins."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import pytest

from service import Service

ROOT = Path(__file__).parents[4]
PAGES = ["verifier/clients/python/README.md", "docs/clients.md"]

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Recorded:
    """Accepts every call, and keeps what it was made with."""

    made: list[Recorded]

    def __init_subclass__(cls) -> None:
        cls.made = []

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.arguments, self.named = arguments, named
        type(self).made.append(self)

    def train(self) -> None:
        pass


class Trainer(Recorded):
    pass


class Config(Recorded):
    pass


class Rubric(Recorded):
    pass


class Rows:
    @staticmethod
    def from_list(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return rows


class BaseTextEnv:
    pass


class Action:
    pass


class Observation:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Environment(Generic[A, B, C]):
    pass


REGISTERED: dict[str, Any] = {}


def register(id: str, entry_point: Any) -> None:
    REGISTERED[id] = entry_point


def make(id: str, **arguments: Any) -> Any:
    return REGISTERED[id](**arguments)


def create_app(env: Any, action: Any, observation: Any, env_name: str) -> Any:
    return env()


STAND_INS: dict[str, dict[str, Any]] = {
    "datasets": {"Dataset": Rows},
    "trl": {"GRPOConfig": Config, "GRPOTrainer": Trainer},
    "verifiers": {"Rubric": Rubric},
    "skyrl_gym": {"register": register, "make": make},
    "skyrl_gym.envs": {},
    "skyrl_gym.envs.base_text_env": {"BaseTextEnv": BaseTextEnv},
    "openenv": {},
    "openenv.core": {},
    "openenv.core.env_server": {
        "Action": Action,
        "Observation": Observation,
        "Environment": Environment,
        "create_app": create_app,
    },
}


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(
    page: str,
    environment: Service,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, members in STAND_INS.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, Any] = {"__name__": "examples"}
    for block in blocks:
        if "sandbox_fusion" in block:
            continue  # `verifier/clients/compat` runs it.
        block = block.replace("http://127.0.0.1:8700", environment.url)
        exec(compile(block, page, "exec"), names)
    if page == "docs/clients.md":
        assert Trainer.made[-1].named["reward_funcs"] is names["reward"]
        assert Rubric.made[-1].named["funcs"][0].__name__ == "correct"
        env = names["app"]
        assert env.reset(seed=0).prompt == "Half of one?" and env.step(r"\boxed{1/2}").reward == 1.0
    else:
        printed = capsys.readouterr().out.splitlines()
        assert printed[:3] == [
            "correct 1.0 2 2",
            "correct 1.0 None None",
            "unavailable None None None",
        ]
        assert "no Lean" in printed[3]


def test_the_packages_version_is_the_services() -> None:
    import rapid_verifier

    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    project = Path(__file__).parents[1] / "pyproject.toml"
    own = re.search(r'^version = "(.*)"$', project.read_text(), re.MULTILINE)
    assert version is not None and own is not None
    assert rapid_verifier.__version__ == version[1] == own[1]
