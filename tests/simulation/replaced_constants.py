"""Constants of modules with other values for one simulation: sizes at which a small world is busy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import ModuleType


@contextlib.contextmanager
def replaced(values: Mapping[tuple[ModuleType, str], object]) -> Iterator[None]:
    """Set the constants, which are those of the modules that use them; set them back in the end.

    Raises:
        AttributeError: a module has none of that name, before anything is set.
    """
    before = {(module, name): getattr(module, name) for module, name in values}
    try:
        for (module, name), value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)
