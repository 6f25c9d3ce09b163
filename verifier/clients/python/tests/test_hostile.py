"""A service may be anyone's, and so may what answers in its place."""

from __future__ import annotations

import json
import pickle

import pytest

from rapid_verifier import Client, InvalidAnswer, Redirected, Refused, Unavailable
from stub import Answer, Items, Stub, results

ITEMS: Items = [{"id": "0"}, {"id": "1"}]


class Scripted(Stub):
    """Gives the next answers, then says that all is correct."""

    def __init__(self) -> None:
        self.next: list[Answer] = []
        super().__init__(lambda number, items: self.next.pop() if self.next else results(items))

    def verify(self, *answers: Answer) -> list[float]:
        self.next.extend(answers)
        with Client(self.url, patience_s=0) as client:
            judged = client.verify({"kind": "math", "answer": 2}, ["1", "2"])
            return [judgement.required() for judgement in judged]


def test_text_of_a_service_is_shown_in_one_line() -> None:
    text = "busy\r\nforged\x1b[2J\x85\x9b1m\u202e\u2066\u2028"
    problem = json.dumps({"detail": text, "status": 400}).encode()
    unjudged = results(ITEMS, reward=None, verdict="unavailable", detail={"reason": text})
    stub = Scripted()
    with stub:
        for answer, kind in [
            ((400, {}, problem), Refused),
            ((503, {}, problem), Unavailable),
            ((400, {}, text.encode()), Refused),
            (unjudged, Unavailable),
        ]:
            with pytest.raises(kind) as error:
                stub.verify(answer)
            shown = str(error.value)
            assert r"busy\r\nforged\x1b[2J\x85\x9b1m\u202e\u2066\u2028" in shown
            assert shown.isprintable()


def test_a_reward_that_does_not_follow_from_its_verdict_is_refused() -> None:
    stub = Scripted()
    with stub:
        for verdict, reward in [
            ("correct", 0.0),
            ("correct", 0.5),
            ("correct", -1.0),
            ("correct", 1e300),
            ("incorrect", 1.0),
            ("incorrect", -1e-300),
            ("malformed", 0.5),
            ("incorrect", -7.5),
            ("timeout", 1),
            ("unavailable", 0.0),
        ]:
            with pytest.raises(InvalidAnswer) as error:
                stub.verify(results(ITEMS, verdict=verdict, reward=reward))
            assert f"is {reward!r} with the verdict `{verdict}`" in str(error.value)
            assert stub.url in str(error.value)
        partial = results(ITEMS, verdict="incorrect", reward=0.5, terms={"style": 0.25})
        assert stub.verify(partial) == [0.5, 0.5]


def test_a_redirect_is_followed_only_within_scheme_host_and_port() -> None:
    stub, other = Scripted(), Scripted()
    with stub, other:
        for status in [307, 308]:
            for target in ["", stub.url]:
                header = {"location": f"{target}/v1/verify"}
                assert stub.verify((status, header, b"")) == [1.0, 1.0]
                assert stub.requests[-2] == stub.requests[-1]
        for status in [301, 302, 303, 307, 308]:
            for target in [
                other.url,
                stub.url.replace("127.0.0.1", "localhost"),
                stub.url.replace("http:", "https:"),
                other.url.replace("//", "//name:secret@"),
            ]:
                before = len(stub.requests)
                with pytest.raises(Redirected) as error:
                    stub.verify((status, {"location": f"{target}/v1/verify"}, b""))
                shown = str(pickle.loads(pickle.dumps(error.value)))
                target = target.replace("name:secret@", "")
                assert stub.url in shown and target in shown and "give its address" in shown
                assert "secret" not in shown
                assert len(stub.requests) == before + 1
        assert not other.requests
