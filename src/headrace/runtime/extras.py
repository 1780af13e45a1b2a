"""Optional libraries: what needs one that is not installed says which extra brings it."""

from __future__ import annotations

from importlib.util import find_spec

from headrace.errors import UnsupportedError


def require(what: str, extra: str, *names: str) -> None:
    """Look for modules, by their outermost names, without importing them.

    Raises:
        UnsupportedError: some are not installed; it says that ``what`` needs them, and names the extra.
    """
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"{what} needs {' and '.join(missing)}, not installed for this Python: "
            f"pip install 'headrace[{extra}]'"
        )
