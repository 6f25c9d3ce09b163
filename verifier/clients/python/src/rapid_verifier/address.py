"""The service's address and token, from arguments, the URL and the environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from rapid_verifier.errors import AddressError

URL_VARIABLE = "RAPID_VERIFIER"
"""The environment variable of the address, which `rapid` reads too."""
TOKEN_VARIABLE = "RAPID_VERIFIER_TOKEN"
"""The environment variable of the token, which `rapid` and the service read too."""

_UNESCAPED = re.compile(r"://[^/?#]*[/?#][^@]*@")
"""A sign before the `@` that ends the host, so that the rest of a token would be a path."""


@dataclass(frozen=True)
class Address:
    """Where the service is, and what it must be sent."""

    url: str
    """Ends in a slash, and holds no credentials, so that it can be printed."""
    token: str | None = field(repr=False)


def resolve(url: str | None = None, token: str | None = None) -> Address:
    """The address with its token.

    The token is `token`, else the password in the URL (`http://user:TOKEN@host`; a user without a
    password counts as the token), else `RAPID_VERIFIER_TOKEN`. An empty one counts as none.

    Raises `AddressError` if no verifier can have the address, or if `token` and the URL differ.
    """
    text = (url if url is not None else os.environ.get(URL_VARIABLE, "")).strip()
    if not text:
        raise AddressError(
            f"no verifier is set: give its address as `url`, or in the environment variable "
            f"{URL_VARIABLE}; `rapid-verifier serve` prints it"
        )
    # What precedes the last @ may be a token, so it is not repeated.
    shown = text.rpartition("@")[2]
    if "://" not in text:
        raise _bad(shown, "http:// is missing at its beginning")
    if _UNESCAPED.search(text):
        raise _bad(
            shown,
            "the signs /, ? and # before an @ end its host. Write them as %2F, %3F and %23, or "
            "give the token as `token`",
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        # The text may hold a token, so it is not repeated.
        raise _bad("the given text", str(error)) from None
    if parts.scheme.lower() not in ("http", "https"):
        raise _bad(shown, "it does not begin with http:// or https://")
    if not host:
        raise _bad("the given text", "it has no host")
    place = f"[{host}]" if ":" in host else host
    if port is not None:
        place = f"{place}:{port}"
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    base = urlunsplit((parts.scheme.lower(), place, path, "", ""))

    in_url = unquote(parts.password or parts.username or "") or None
    given = (token or "").strip() or None
    if in_url and given and in_url != given:
        raise AddressError(f"the address {base} has one token in its URL, and `token` is another")
    from_environment = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    found = given or in_url or from_environment
    if found and not (found.isascii() and found.isprintable()):
        raise AddressError(
            f"the token for {base} cannot be sent in a header: it has characters beyond "
            "printable ASCII. Give the token's text, not a file's path or its bytes"
        )
    return Address(base, found)


def _bad(text: str, reason: str) -> AddressError:
    return AddressError(
        f"`{text}` is not the address of a verifier: {reason}. Give the address that "
        "`rapid-verifier serve` printed, such as http://127.0.0.1:8700"
    )
