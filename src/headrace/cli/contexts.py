"""Servers under names of a person's own, and which of them is meant where none is given.

They are in ``headrace/contexts.json`` below ``$XDG_CONFIG_HOME``, else ``~/.config``; a password is in a file
of its own that this one names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.runtime.client_variables import CONTEXT_VARIABLE, CREDENTIAL_VARIABLES
from headrace.runtime.client_variables import PASSWORD_VARIABLE as PASSWORD
from headrace.runtime.client_variables import USER_VARIABLE as USER

_VERSION: Final = 1
_FILE_BYTES_MAX: Final = 1 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class ServerContext:
    """One server. What is None is as without a context."""

    uri: str
    rest: str | None = None
    tls_ca: str | None = None
    user: str | None = None
    password_file: str | None = None

    def defaults(self, *, asks_rest: bool) -> dict[str, str]:
        """Return what options are by default, for a verb that asks the controller or the REST address."""
        address = self.rest if asks_rest else self.uri
        given = {"rest" if asks_rest else "uri": address, "tls_ca": self.tls_ca}
        if asks_rest and not (address or "").startswith("https:"):
            del given["tls_ca"]
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Contexts:
    """All of them, and the name of the one that is used."""

    by_name: Mapping[str, ServerContext] = field(default_factory=dict)
    used: str | None = None

    def get(self, name: str) -> ServerContext:
        """Raises InvalidArgumentError: there is none of this name."""
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise InvalidArgumentError(f"there is no context {name!r}; there are: {known}")
        return self.by_name[name]


def contexts_file() -> Path:
    """Return where contexts are."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "headrace" / "contexts.json"


def check_name(name: str) -> None:
    """Raises InvalidArgumentError: no context can have this name."""
    if not _NAME.match(name):
        raise InvalidArgumentError(
            f"{name!r} is no name of a context: a letter or digit, then up to 63 of these, '.', '_' and '-'"
        )


def read_contexts() -> Contexts:
    """Return all contexts; none if there is no file.

    Raises:
        DataCorruptionError: the file is none of contexts; the message names it.
    """
    path = contexts_file()
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    try:
        return _decode(data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataCorruptionError(
            f"{path} is no file of contexts ({error}): mend it, or remove it and add them again"
        ) from None


def _decode(data: bytes) -> Contexts:
    if len(data) > _FILE_BYTES_MAX:
        raise ValueError(f"it has more than {_FILE_BYTES_MAX} bytes")
    document = json.loads(data)
    if document["version"] != _VERSION:
        raise ValueError(f"its version is {document['version']!r}, and {_VERSION} is known here")
    known = {each.name for each in fields(ServerContext)}
    contexts = {}
    for name, given in document["contexts"].items():
        if any(not isinstance(value, str) for value in given.values()):
            raise TypeError(f"{name} has what is no text")
        contexts[name] = ServerContext(**{key: value for key, value in given.items() if key in known})
    used = document.get("used")
    return Contexts(contexts, used if used in contexts else None)


def write_contexts(contexts: Contexts) -> None:
    """Put them in the place of what is there, as a whole; only the user may read the file."""
    path = contexts_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "version": _VERSION,
        "used": contexts.used,
        "contexts": {
            name: {key: value for key, value in asdict(each).items() if value is not None}
            for name, each in sorted(contexts.by_name.items())
        },
    }
    written = path.with_suffix(f".{os.getpid()}")
    try:
        written.touch(mode=0o600)
        written.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def used_context() -> ServerContext | None:
    """Return the context that is used, as the variable or the file says; None: none is.

    Raises:
        InvalidArgumentError: the variable names none.
        DataCorruptionError: as :func:`read_contexts`.
    """
    wanted = os.environ.get(CONTEXT_VARIABLE)
    if wanted == "":
        return None
    contexts = read_contexts()
    if wanted is not None:
        return contexts.get(wanted)
    return None if contexts.used is None else contexts.get(contexts.used)


def give_credentials(context: ServerContext, environment: MutableMapping[str, str]) -> None:
    """Put the user of a context where clients look for one, unless there is one already.

    Raises:
        InvalidArgumentError: the file of the password cannot be read.
    """
    if context.user is None or any(environment.get(name) for name in CREDENTIAL_VARIABLES):
        return
    assert context.password_file is not None
    try:
        password = Path(context.password_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"the password of user {context.user} cannot be read: {error}") from None
    environment[USER], environment[PASSWORD] = context.user, password.rstrip("\r\n")
