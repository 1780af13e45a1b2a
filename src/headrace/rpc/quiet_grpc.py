"""gRPC, told to write nothing on standard error: what goes wrong with a connection, our errors say, once.

It looks at its variable when it is imported. So clients import it from here; a program that sets the
variable, or has imported gRPC before, keeps what it has chosen.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["grpc"]

_VERBOSITY: Final = "GRPC_VERBOSITY"

_is_ours = _VERBOSITY not in os.environ
if _is_ours:
    os.environ[_VERBOSITY] = "NONE"
try:
    import grpc
finally:
    if _is_ours:
        del os.environ[_VERBOSITY]  # processes that this one starts are not our affair
