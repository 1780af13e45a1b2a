"""Finds out whether the lock of a file is held, without trying to acquire it: an inspection must never block
an owner, not even for a moment.

Linux lists the locks of all processes in ``/proc/locks``, those of the same PID namespace. One that is held
from another machine, or from another container, is not listed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_TABLE: Final = "/proc/locks"
_HELD: Final = re.compile(r"\d+: FLOCK +\S+ +\S+ +(-?\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ")
"""Process, device and inode. The line of a waiting process has an arrow in front of its kind."""


def is_locked(path: str, pid: int | None = None) -> bool | None:
    """Whether a process of this system holds a ``flock`` of the file; None where locks are not
    listed.

    Some file systems have other device numbers in the list, so the inode is enough if ``pid`` has the lock.

    Raises:
        OSError: the file cannot be inspected.
    """
    try:
        table = Path(_TABLE).read_text()
    except OSError:
        return None
    status = Path(path).stat()
    device = (os.major(status.st_dev), os.minor(status.st_dev))
    for line in table.splitlines():
        held = _HELD.match(line)
        if held is None or int(held[4]) != status.st_ino:
            continue
        if (int(held[2], 16), int(held[3], 16)) == device or int(held[1]) == pid:
            return True
    return False
