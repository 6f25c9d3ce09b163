"""SandboxFusion's own clients, unmodified, against the service: its PyPI package, and verl's."""

from __future__ import annotations

import importlib.util
import re
import threading
import time
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sandbox_fusion
from sandbox_fusion import (
    CommandRunStatus,
    RunCodeRequest,
    RunStatus,
    SubmitRequest,
    SummaryMapping,
    TestConfig,
)

from service import Service

PACKAGE = "sandbox-fusion"
PATH = "/compat/sandbox-fusion"
DOUBLE = "print(2 * int(input()))"
DOUBLE_TESTS = [
    {"input": {"stdin": f"{n}\n"}, "output": {"stdout": f"{2 * n}\n"}} for n in range(1, 4)
]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """These clients send no header of ours, so the service has no token."""
    with Service(code=True, token=None) as started:
        sandbox_fusion.set_endpoint(started.url + PATH)
        yield started


@pytest.fixture(scope="module")
def verl() -> ModuleType:
    """The module that verl's reward managers call. The rest of verl needs PyTorch."""
    path = distribution("verl").locate_file("verl/utils/reward_score/sandbox_fusion/utils.py")
    spec = importlib.util.spec_from_file_location("verl_sandbox_fusion", str(path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(code: str, stdin: str | None = None, **fields: Any) -> Any:
    request = RunCodeRequest(code=code, stdin=stdin, language="python", **fields)
    return sandbox_fusion.run_code(request, max_attempts=1)


def submit(completion: str, provided_data: Any = None, **fields: Any) -> Any:
    config = TestConfig(provided_data=provided_data)
    request = SubmitRequest(
        **{"dataset": "any", "id": 1, "completion": completion, "config": config, **fields}
    )
    return sandbox_fusion.submit(request, max_attempts=1)


def test_the_package_runs_programs(service: Service) -> None:
    result = run(DOUBLE, "21\n")
    assert result.status == RunStatus.Success
    assert (result.run_result.stdout, result.run_result.return_code) == ("42\n", 0)

    result = run("import sys; print('x', file=sys.stderr); sys.exit(3)")
    assert result.status == RunStatus.Failed
    assert result.run_result.status == CommandRunStatus.Finished
    assert (result.run_result.stderr, result.run_result.return_code) == ("x\n", 3)

    result = run("while True: pass", run_timeout=1)
    assert result.status == RunStatus.Failed
    assert result.run_result.status == CommandRunStatus.TimeLimitExceeded
    mapping = SummaryMapping(Success="ok", Failed="failed", RunTimeout="timeout")
    assert sandbox_fusion.summary_run_code_result(result, mapping) == "timeout"
    assert sandbox_fusion.summary_run_code_result(run("1 / 0"), mapping) == "failed"
    assert "ZeroDivisionError" in run("1 / 0").run_result.stderr


def test_the_package_submits_completions(service: Service) -> None:
    right = f"```python\n{DOUBLE}\n```"
    result = submit(right, {"test": DOUBLE_TESTS})
    assert result.accepted and result.id == 1
    assert result.extracted_code.strip() == DOUBLE
    assert [test.passed for test in result.tests] == [True] * 3

    result = submit("```python\nprint(2)\n```", {"test": DOUBLE_TESTS})
    assert not result.accepted
    assert [test.passed for test in result.tests] == [True, False]
    assert result.tests[1].test_info["expected"] == "4"

    whole = {"kind": "program", "tests": [{"stdin": "1", "stdout": "2"}]}
    assert submit(right, whole).accepted
    named = submit("\\boxed{10}", dataset="starter-math", id="train-1")
    assert named.id == "train-1"


def test_the_documents_example_runs(service: Service) -> None:
    page = (Path(__file__).parents[3] / "docs/clients.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [example] = [block for block in blocks if "sandbox_fusion" in block]
    exec(example.replace("http://127.0.0.1:8700", service.url), {})


def test_humanevals_form_is_judged_by_its_own_check(service: Service) -> None:
    record = {
        "task_id": "HumanEval/0",
        "prompt": "from typing import List\n\n\ndef double(xs: List[int]) -> List[int]:\n"
        '    """ Twice each. """\n',
        "entry_point": "double",
        "canonical_solution": "    return [2 * x for x in xs]\n",
        "test": "METADATA = {}\n\n\ndef check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n"
        "    xs: List[int] = []\n    assert candidate(xs) == []\n",
    }
    for completion, accepted in [
        ("    return [2 * x for x in xs]\n", True),
        ("    return [x * x for x in xs]\n", False),
        ("```python\ndef double(xs):\n    return [x + x for x in xs]\n```", True),
        ("```python\ndef double(xs):\n    return 0\n```", False),
    ]:
        assert submit(completion, record).accepted is accepted, completion


def test_what_does_not_run_here_is_an_error_that_names_the_remedy(service: Service) -> None:
    with pytest.raises(Exception, match=r"422.*SandboxFusion's own"):
        sandbox_fusion.run_code(RunCodeRequest(code="x", language="cpp"), max_attempts=1)
    with pytest.raises(Exception, match=r"422.*have no files here"):
        run("x", files={"a.txt": "aGk="})
    with pytest.raises(Exception, match=r"422.*no task `starter-math/none`"):
        submit("x", dataset="starter-math", id="none")


def test_verl_judges_whole_programs_and_functions(service: Service, verl: ModuleType) -> None:
    url = service.url + PATH + "/run_code"
    tests = {"inputs": ["1\n", "2\n", "3\n"], "outputs": ["2\n", "4", "7"]}
    results, metadata = verl.check_correctness(url, tests, DOUBLE)
    assert results == [True, True, False]
    assert [entry["status"] for entry in metadata] == ["success", "success", "wrong_answer"]

    function = "class Solution:\n    def combine(self, a, b):\n        return [a, b, a + b]"
    tests = {"inputs": ["1\n2", '"a"\n"b"'], "outputs": ["[1, 2, 3]", '["a", "b", "ab"]']}
    results, _ = verl.check_correctness(url, {**tests, "fn_name": "combine"}, function)
    assert results == [True, True]

    for code, status, result in [
        ("1 / 0", "runtime_error", -2),
        ("import sys; sys.exit(1)", "runtime_error", -2),
        ("def f(:", "runtime_error", -2),
        ("while True: pass", "timeout", -3),
        ("x = [0]\nwhile True: x += x", "runtime_error", -2),
    ]:
        results, metadata = verl.check_correctness(
            url, {"inputs": [""], "outputs": [""]}, code, timeout=2
        )
        assert (results, metadata[0]["status"]) == ([result], status), code

    results, _ = verl.check_correctness(
        url,
        {
            "assert_case": ["assert f(1) == 2", "assert f(1) == 3"],
            "inputs": [""] * 2,
            "outputs": [None] * 2,
        },
        "def f(n): return 2 * n",
    )
    assert results == [True, -2]


def test_verl_with_many_cases_at_once(service: Service, verl: ModuleType) -> None:
    count = 120
    tests = {
        "inputs": [f"{n}\n" for n in range(count)],
        "outputs": [str(2 * n) for n in range(count)],
    }
    results, _ = verl.check_correctness(service.url + PATH + "/run_code", tests, DOUBLE)
    assert results == [True] * count


def test_no_client_gets_a_result_that_no_run_had(verl: ModuleType) -> None:
    """Killed and started again while verl waits, the service answers every case rightly; without a
    sandbox, neither client gets a result."""
    few = ["--set", "limits.items=4", "--set", "limits.queue=4"]
    with Service(*few, code=True, token=None) as service:
        url = service.url + PATH + "/run_code"
        tests = {
            "inputs": [f"{n}\n" for n in range(40)],
            "outputs": [str(2 * n) for n in range(40)],
        }
        slow = "import time\nfor _ in range(10**6): pass\n" + DOUBLE
        results, _ = verl.check_correctness(url, tests, slow)
        assert results == [True] * 40, "overload"

        outcomes: list[Any] = []
        settled = threading.Event()

        def ask() -> None:
            last = False
            while not last:
                last = settled.is_set()
                outcomes.append(verl.check_correctness(url, tests, slow)[0])

        asking = threading.Thread(target=ask)
        asking.start()
        for _ in range(2):
            time.sleep(1)
            service.kill()
            service.start()
        settled.set()
        asking.join()
        # -1 is verl's own word for a request that broke off.
        assert all(result in (True, -1) for results in outcomes for result in results)
        assert outcomes[-1] == [True] * 40

    with Service(token=None) as service:  # without a sandbox
        endpoint = service.url + PATH
        since = time.monotonic()
        with pytest.raises(Exception, match="504"):
            sandbox_fusion.run_code(
                RunCodeRequest(code=DOUBLE, language="python", compile_timeout=0, run_timeout=0),
                endpoint=endpoint,
                max_attempts=1,
            )
        assert 7 < time.monotonic() - since < 10
        answer, error = verl.call_sandbox_api(endpoint + "/run_code", DOUBLE, "1", 0, 0, 1024)
        assert answer is None and "504" in error
