"""Client of rapid-verifier, a service that judges the completions of language models.

`Client` and `AsyncClient` talk to the service. The reward functions and environments of trainers
are in `rapid_verifier.verl`, `.trl`, `.verifiers` and `.env`. `serve` makes a grader of the service
of a reward function.

The rule above all: a failure of the infrastructure never becomes a reward. Without a verdict there
is an exception, or `None` where the trainer's contract has it.
"""

from rapid_verifier.async_client import AsyncClient
from rapid_verifier.client import Client
from rapid_verifier.errors import (
    AddressError,
    ConnectionFailed,
    GroundTruthError,
    InvalidAnswer,
    ItemError,
    Problem,
    Redirected,
    Refused,
    RequestTimedOut,
    TokenRefused,
    Unavailable,
    VerifierError,
)
from rapid_verifier.grader import serve
from rapid_verifier.ground_truth import GroundTruthIs
from rapid_verifier.micro_batch import MicroBatcher
from rapid_verifier.version import VERSION as __version__
from rapid_verifier.wire import (
    CodeTask,
    CodeTest,
    Dataset,
    Grader,
    Item,
    Judgement,
    LeanTask,
    MathTask,
    ProgramTask,
    ProgramTest,
    Readiness,
    ServiceInfo,
    StoredVerdict,
    Task,
    Verdict,
)

__all__ = [
    "AddressError",
    "AsyncClient",
    "Client",
    "CodeTask",
    "CodeTest",
    "ConnectionFailed",
    "Dataset",
    "Grader",
    "GroundTruthError",
    "GroundTruthIs",
    "InvalidAnswer",
    "Item",
    "ItemError",
    "Judgement",
    "LeanTask",
    "MathTask",
    "MicroBatcher",
    "Problem",
    "ProgramTask",
    "ProgramTest",
    "Readiness",
    "Redirected",
    "Refused",
    "RequestTimedOut",
    "ServiceInfo",
    "StoredVerdict",
    "Task",
    "TokenRefused",
    "Unavailable",
    "Verdict",
    "VerifierError",
    "__version__",
    "serve",
]
