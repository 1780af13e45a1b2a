"""Says what protects too little a server that other machines can reach. Pure."""

from __future__ import annotations

from typing import Final

from headrace.model.endpoint import is_loopback

_MISSING: Final = {
    (False, False): (
        "without TLS and without users: everybody who reaches it may read and change everything, and the "
        "network sees it; add --tls-cert and --tls-key, and --users"
    ),
    (False, True): (
        "without TLS: the network sees passwords and data; add --tls-cert and --tls-key (settings tls.cert "
        "and tls.key)"
    ),
    (True, False): (
        "without users: everybody who reaches it may read and change everything; add --users (setting "
        "auth.users)"
    ),
}


def find_exposure(host: str, *, encrypts: bool, knows_users: bool) -> str | None:
    """Return what an operator should know of a server that listens on ``host``; None if nothing is missing
    or only this machine reaches it.
    """
    if is_loopback(host) or (encrypts and knows_users):
        return None
    return f"the server listens on {host} {_MISSING[encrypts, knows_users]}"
