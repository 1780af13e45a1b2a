"""What Spark says of an error in one of its Python workers: the sentence first.

Spark passes on what the worker writes, which is a traceback with the sentence at its end; a notebook shows
little more than the first line. A worker that is asked to hide tracebacks writes the sentence alone.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from headrace.errors import HeadraceError
from headrace.runtime.client_variables import DEBUG_VARIABLE

F = TypeVar("F", bound=Callable[..., Any])

_HIDE: Final = "SPARK_HIDE_TRACEBACK"


def sentence_first(method: F) -> F:
    """Let a worker of Spark that ends with an error of this method write the sentence of the error alone."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except HeadraceError:
            if _in_worker() and os.environ.get(DEBUG_VARIABLE, "") in {"", "0"}:
                os.environ[_HIDE] = "1"  # of this process alone, which ends with the error
            raise

    return cast("F", call)


def _in_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
