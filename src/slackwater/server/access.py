"""Access control: bearer tokens with scopes; without any token, access from this machine alone.

Without tokens the server listens on loopback only (`serving`). A web page from elsewhere that is open in a browser on
this machine could reach it there; so requests that a browser sends for another site, or to another name, are refused.
"""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from slackwater.server.rest.errors import RequestRefused
from slackwater.server.store import Scope, Store, Token
from slackwater.server.whole_request import WholeRequest

LOCAL = "local"
"""The owner of what is registered without a token."""
_BEARER = {"www-authenticate": 'Bearer realm="slackwater"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """Identity and scopes of a request; without tokens all scopes, as access is local then."""

    token: Token | None = None

    @property
    def name(self) -> str:
        """Owner name of this caller's registrations."""
        return LOCAL if self.token is None else self.token.name

    def allows(self, scope: Scope) -> bool:
        """True if the caller has the scope."""
        return self.token is None or self.token.allows(scope)


def caller(request: HTTPConnection | WholeRequest, store: Store, scope: Scope) -> Caller:
    """Authenticate a request and check the scope; a refusal otherwise."""
    if not store.any_token():
        _check_local(request)
        return Caller()
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not text:
        raise RequestRefused(
            HTTPStatus.UNAUTHORIZED, "unauthorized", "send the header Authorization: Bearer and a token", _BEARER
        )
    return by_token(text.strip(), store, scope)


def by_token(text: str, store: Store, scope: Scope) -> Caller:
    """Authenticate a token and check the scope; a refusal otherwise."""
    token = store.check_token(text)
    if token is None:
        raise RequestRefused(HTTPStatus.UNAUTHORIZED, "unauthorized", "the token is not known, or was revoked", _BEARER)
    if not token.allows(scope):
        has = ", ".join(sorted(token.scopes))
        raise RequestRefused(
            HTTPStatus.FORBIDDEN, "forbidden", f"this needs a token with the scope {scope}; yours has {has}"
        )
    return Caller(token)


def is_loopback(host: str) -> bool:
    """Whether a name or address leads to this machine and nowhere else.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_local(request: HTTPConnection | WholeRequest) -> None:
    origin = request.headers.get("origin")
    for what, address in (("Host", f"//{request.headers.get('host', '')}"), ("Origin", origin)):
        if address is not None and not _is_local(address):
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                "forbidden",
                f"no token was made yet, so only this machine may ask; {what} names another (slackwater token create)",
            )


@lru_cache(maxsize=64)
def _is_local(address: str) -> bool:
    """True if an address names this machine."""
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)
