"""Environment variables that clients read. A server ignores them: both may have the same environment."""

from __future__ import annotations

from typing import Final

URI_VARIABLE: Final = "HEADRACE_URI"
USER_VARIABLE: Final = "HEADRACE_USER"
PASSWORD_VARIABLE: Final = "HEADRACE_PASSWORD"  # noqa: S105 - the name of a variable
TLS_CA_VARIABLE: Final = "HEADRACE_TLS_CA"
COORDINATOR_VARIABLE: Final = "HEADRACE_COORDINATOR"
"""Also of processes of a cluster: the option that names it reads it."""
CONTEXT_VARIABLE: Final = "HEADRACE_CONTEXT"
"""Which of the servers that a person has named is meant by the command line; empty: none."""
DEBUG_VARIABLE: Final = "HEADRACE_DEBUG"
"""Whether errors keep the frames of the client."""

CREDENTIAL_VARIABLES: Final = (
    USER_VARIABLE,
    PASSWORD_VARIABLE,
    "pravega_client_auth_method",
    "pravega_client_auth_token",
    "pravega_client_auth_username",
    "pravega_client_auth_password",
)
"""Where credentials come from: ours, then those of other clients of the protocol."""

CLIENT_VARIABLES: Final = frozenset(
    {
        URI_VARIABLE,
        USER_VARIABLE,
        PASSWORD_VARIABLE,
        TLS_CA_VARIABLE,
        COORDINATOR_VARIABLE,
        CONTEXT_VARIABLE,
        DEBUG_VARIABLE,
    }
)
"""They start like the settings of servers and are none."""
