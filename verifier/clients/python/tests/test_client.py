"""The two clients against the real service."""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from rapid_verifier import (
    AddressError,
    AsyncClient,
    Client,
    CodeTask,
    Item,
    ItemError,
    LeanTask,
    MathTask,
    Refused,
    TokenRefused,
    Unavailable,
)
from service import Service

HALF: MathTask = {"kind": "math", "answer": r"\frac{1}{2}"}
DOUBLE: CodeTask = {
    "kind": "code",
    "entry_point": "double",
    "tests": [{"args": [3], "expected": 6}, {"args": [(1,)], "expected": (1, 1)}],
}


def test_right_and_wrong_answers_get_1_and_0_in_their_order(client: Client) -> None:
    judged = client.verify(HALF, [r"\boxed{0.5}", r"\boxed{2}", "no answer"], prompt="Half of one?")
    assert [judgement.verdict for judgement in judged] == ["correct", "incorrect", "malformed"]
    assert [judgement.reward for judgement in judged] == [1.0, 0.0, 0.0]
    assert judged[0].detail["rule"] == "number"
    assert len(judged[0].key) == 64


def test_programs_are_judged_and_tuples_are_not_lists(client: Client) -> None:
    graders = {grader.name: grader for grader in client.info().graders}
    assert graders["code"].state == "ready", graders["code"].reason
    right, wrong, listed = client.verify(
        DOUBLE,
        [
            "def double(x):\n    return 2 * x",
            "def double(x):\n    return x",
            "def double(x):\n    return 2 * x if isinstance(x, int) else list(x) * 2",
        ],
        all_tests=True,
    )
    assert (right.reward, right.passed, right.total) == (1.0, 2, 2)
    assert (wrong.reward, wrong.passed, wrong.total) == (0.0, 0, 2)
    assert (listed.reward, listed.passed) == (0.0, 1)


def test_tasks_of_the_services_data_sets_are_named_by_their_ids(client: Client) -> None:
    assert "starter-math" in {dataset.name for dataset in client.datasets()}
    right, wrong = client.verify(
        "starter-math/train-1", [r"\boxed{10}", r"\boxed{9}"], prompt="How much is 13 minus 3?"
    )
    assert (right.reward, wrong.reward) == (1.0, 0.0)
    with pytest.raises(Refused, match="no-such-task") as error:
        client.verify("starter-math/no-such-task", ["1"])
    assert error.value.problem.field == "task"


def test_a_proof_without_lean_is_unavailable_and_no_reward(client: Client) -> None:
    task: LeanTask = {"kind": "lean", "header": "", "statement": "theorem t : 1 + 1 = 2 := by"}
    with pytest.raises(Unavailable, match="there is no Lean") as error:
        client.verify(task, ["rfl"])
    assert not error.value.retryable
    lean, mathematics = client.judge([Item(task, "rfl"), Item(HALF, r"\boxed{0.5}")])
    assert (lean.verdict, lean.reward, mathematics.reward) == ("unavailable", None, 1.0)


def test_large_batches_are_divided_and_stay_in_order(client: Client, service: Service) -> None:
    before = service.requests()
    items = [
        Item({"kind": "math", "answer": place % 7}, rf"\boxed{{{place}}}") for place in range(99)
    ]
    judged = client.judge(items)
    assert [judgement.reward for judgement in judged] == [float(p < 7) for p in range(99)]
    assert service.requests() - before == 4


def test_the_service_describes_itself(client: Client) -> None:
    info = client.info()
    assert info.api == "v1" and info.limits["items"] == 4096
    assert client.ready().ready and client.healthy()
    judged = client.verify(HALF, [r"\boxed{1/2}"])[0]
    stored = client.verdict(judged.key)
    assert stored is not None and stored.reward == 1.0
    assert client.verdict("0" * 64) is None
    assert not Client("http://127.0.0.1:9").healthy()


def test_half_characters_of_models_reach_the_service(client: Client) -> None:
    assert client.verify(HALF, ["\ud83d \\boxed{0.5}"])[0].reward == 1.0


def test_the_async_client_does_the_same(service: Service) -> None:
    async def run() -> None:
        async with AsyncClient(service.url, service.token) as client:
            calls = (client.verify(HALF, [rf"\boxed{{{n}/2}}"]) for n in range(3))
            judged = await asyncio.gather(*calls)
            assert [found.reward for [found] in judged] == [0.0, 1.0, 0.0]
            assert (await client.info()).version
            assert (await client.ready()).ready and await client.healthy()
            assert await client.verdict("0" * 64) is None

    asyncio.run(run())


def test_a_client_is_shared_by_threads_and_can_be_pickled(client: Client) -> None:
    copy: Client = pickle.loads(pickle.dumps(client))
    with copy, ThreadPoolExecutor(8) as threads:
        rewards = threads.map(
            lambda n: copy.verify(HALF, [rf"\boxed{{{n}/2}}"])[0].reward, range(16)
        )
    assert list(rewards) == [float(n == 1) for n in range(16)]


@pytest.mark.parametrize("token", [None, "another"])
def test_a_wrong_token_is_an_error_at_once_that_names_the_remedy(
    service: Service, token: str | None
) -> None:
    with Client(service.url, token) as client, pytest.raises(TokenRefused) as error:
        client.verify(HALF, ["1"])
    text = str(error.value)
    assert "RAPID_VERIFIER_TOKEN" in text and service.url in text
    assert ("none was sent" if token is None else "is not the verifier's") in text


def test_the_token_comes_from_the_argument_the_url_or_the_environment(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = service.token
    assert token is not None
    quoted = token.replace(" ", "%20")
    place = service.url.removeprefix("http://")
    for url in [f"http://user:{quoted}@{place}", f"http://{quoted}@{place}"]:
        with Client(url) as client:
            assert client.verify(HALF, [r"\boxed{0.5}"])[0].reward == 1.0
            assert client.url == f"{service.url}/"
    with pytest.raises(AddressError, match="one token in its URL"):
        Client(f"http://user:{quoted}@{place}", "another")
    monkeypatch.setenv("RAPID_VERIFIER", service.url)
    monkeypatch.setenv("RAPID_VERIFIER_TOKEN", token)
    with Client() as client:
        assert client.verify(HALF, [r"\boxed{0.5}"])[0].reward == 1.0


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "no verifier is set"),
        ("127.0.0.1:8700", "http:// is missing"),
        ("ftp://host", "does not begin with http"),
        ("http://", "no host"),
        ("http://host:port", "Port"),
    ],
)
def test_an_address_that_no_verifier_can_have_is_refused_at_once(url: str, reason: str) -> None:
    with pytest.raises(AddressError, match=reason):
        Client(url)


def test_no_error_shows_a_token() -> None:
    for url in [
        "ftp://user:secret@host",
        "http://user:secret@host:port",
        "http://user:secret@",
        "user:secret@host:8700",
        "http://user:secret/2@host:8700",
        "http://secret/2@host:8700",
        "http://user:1/secret@host:8700",
    ]:
        with pytest.raises(AddressError) as error:
            Client(url)
        assert "secret" not in str(error.value)
    with pytest.raises(AddressError, match="printable ASCII") as error:
        Client("http://host", "secret\n2")
    assert "secret" not in str(error.value)


def test_a_path_prefix_and_ipv6_addresses_stay() -> None:
    assert Client("https://host/base").url == "https://host/base/"
    assert Client("http://[::1]:8700").url == "http://[::1]:8700/"


def test_a_value_without_a_form_in_json_is_an_error(client: Client) -> None:
    for value in [object(), {"task": object()}]:
        task: CodeTask = {"kind": "code", "entry_point": "f", "tests": [{"args": [value]}]}
        with pytest.raises(ItemError, match="object"):
            client.verify(task, ["1"])
    with pytest.raises(TypeError, match="a list of texts"):
        client.verify(HALF, "one text")


def test_requests_that_are_too_large_are_halved() -> None:
    settings = ("--set", "limits.items=4", "--set", "limits.body_bytes=2000")
    with Service(*settings) as service, Client(service.url, service.token) as client:
        items = [Item(HALF, rf"{'x' * 300} \boxed{{{place}/2}}") for place in range(20)]
        assert [found.reward for found in client.judge(items)] == [float(p == 1) for p in range(20)]
        assert service.requests(413) + service.requests(422) > 0
        with pytest.raises(Refused, match="smaller batches"):
            client.verify(HALF, ["x" * 3000])
