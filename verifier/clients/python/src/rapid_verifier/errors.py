"""Why there is no verdict.

No class here derives from `TimeoutError` or `OSError`: trainers catch these, and score them 0.
Every error can be pickled, since trainers raise them in worker processes.
"""

from __future__ import annotations

from dataclasses import dataclass


def shown(text: str) -> str:
    """The text in one line, with escapes for what a terminal would obey. It may be anyone's."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class VerifierError(Exception):
    """Base class of the errors of this package."""

    def __str__(self) -> str:
        return shown(self._sentence())

    def _sentence(self) -> str:
        return super().__str__()

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return False

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next attempt, if the service stated them."""
        return None


class AddressError(VerifierError, ValueError):
    """The address cannot be that of a verifier, or the token cannot be sent."""


class GroundTruthError(VerifierError, ValueError):
    """A ground truth does not say which task it is, or a completion has no text."""


class ItemError(VerifierError, ValueError):
    """An item holds a value that JSON cannot express."""


class Unavailable(VerifierError):
    """There is no verdict. The completion may be right or wrong, so there is no reward either.

    The service answered `unavailable`, or gave no answer until the client's patience ended.
    """

    def __init__(self, url: str, reason: str, may_succeed_later: bool = True) -> None:
        super().__init__(url, reason, may_succeed_later)
        self.url = url
        self.reason = reason

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return bool(self.args[2])

    def _sentence(self) -> str:
        remedy = (
            "Try again later"
            if self.retryable
            else "Trying again does not help; correct the task, or the verifier"
        )
        reason = self.reason.rstrip(".")
        return (
            f"the verifier at {self.url} gave no verdict: {reason}. This is not a wrong answer, "
            f"so there is no reward. {remedy}"
        )


class ConnectionFailed(VerifierError):
    """The connection failed, or broke before the answer was complete."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    @property
    def retryable(self) -> bool:
        """True: the service may come back."""
        return True

    def _sentence(self) -> str:
        return (
            f"no answer from the verifier at {self.url}: {self.reason}. Check that "
            "`rapid-verifier serve` runs there and that this machine can reach it"
        )


class RequestTimedOut(VerifierError):
    """The answer did not arrive in time."""

    def __init__(self, url: str, after_s: float) -> None:
        super().__init__(url, after_s)
        self.url = url
        self.after_s = after_s

    @property
    def retryable(self) -> bool:
        """True: the service may be less busy later."""
        return True

    def _sentence(self) -> str:
        return (
            f"the verifier at {self.url} did not answer within {self.after_s:g} s. It may be "
            "overloaded: send smaller batches, or start it with more workers"
        )


class Redirected(VerifierError):
    """A redirect to another scheme, host or port. It is not followed."""

    def __init__(self, url: str, to: str) -> None:
        super().__init__(url, to)
        self.url = url
        self.to = to

    def _sentence(self) -> str:
        return (
            f"{self.url} redirects to {self.to}, and prompts and completions are sent only to the "
            "scheme, host and port that were given. If that is the verifier, give its address "
            "instead"
        )


class InvalidAnswer(VerifierError):
    """A success status with a body that does not follow the contract."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def _sentence(self) -> str:
        return (
            f"{self.url} answered, but not as a verifier does: {self.reason}. Check that the "
            "address is a verifier's and that its version matches this package's"
        )


@dataclass(frozen=True)
class Problem:
    """The service's problem document (RFC 9457)."""

    status: int
    """The HTTP status."""
    kind: str = "about:blank"
    """The kind of problem, such as `/problems/queue-full`."""
    title: str = ""
    detail: str = ""
    """What happened, to what, and what to do."""
    item: int | None = None
    """Index of the item at fault, in the request."""
    field: str | None = None
    """Path of the field at fault, such as `task.tests[0].args`."""


ADVICE = {
    404: ". Check that the address is a verifier's, without a path such as /v1",
    413: ". Send smaller batches",
}


class Refused(VerifierError):
    """An answer with an error status."""

    def __init__(self, url: str, problem: Problem, wait_s: float | None = None) -> None:
        super().__init__(url, problem, wait_s)
        self.url = url
        self.problem = problem

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later: 408, 429 and 5xx."""
        # Load balancers answer 408 to a request that arrives too slowly.
        return self.problem.status in (408, 429) or self.problem.status >= 500

    @property
    def retry_after(self) -> float | None:
        """The header `Retry-After`, in seconds."""
        wait: float | None = self.args[2]
        return wait

    def _sentence(self) -> str:
        problem = self.problem
        detail = problem.detail or problem.title or "no reason given"
        advice = ADVICE.get(problem.status, "")
        return f"the verifier answered {problem.status} to {self.url}: {detail}{advice}"


class TokenRefused(Refused):
    """The service requires a token, and got none or another one."""

    def __init__(
        self, url: str, problem: Problem, wait_s: float | None = None, sent: bool = False
    ) -> None:
        super().__init__(url, problem, wait_s)
        self.args = (url, problem, wait_s, sent)
        self.sent = sent

    def _sentence(self) -> str:
        state = "the one that was sent is not the verifier's" if self.sent else "none was sent"
        return (
            f"the verifier at {self.url} requires a token, and {state}. Set RAPID_VERIFIER_TOKEN "
            "to the token that the verifier was started with, or give it as `token`"
        )
