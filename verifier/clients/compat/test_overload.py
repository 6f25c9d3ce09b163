"""While the queue is full, each route gives a reward that is right, or refuses and counts it.

`test_kimina.py` tries Kimina's route, which runs only Lean, and `test_sandbox_fusion.py` tries
`run_code`.
"""

from __future__ import annotations

import re

import pytest

from overload import TASK, at_once, completion, overloaded, right_or_missing
from routes import Ask, nemo_gym, openrlhf, slime, submit


@pytest.mark.parametrize("ask", [openrlhf, slime, nemo_gym, submit])
def test_under_overload_a_reward_is_right_or_counted_as_withheld(ask: Ask) -> None:
    # SandboxFusion's client sends no token.
    with overloaded(token=None if ask is submit else "secret") as service:

        def asked(number: int) -> float | None:
            try:
                return ask(service, completion(number), TASK)
            except Exception as error:
                assert re.search("50[34]", str(error)), error
                return None

        refused = right_or_missing(service, at_once(asked))
        assert service.told("withheld") == refused
