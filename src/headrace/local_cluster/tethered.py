"""``python tethered.py PID PROGRAM ARGUMENT...``: become a program that is killed when its parent PID ends.

Linux does it. On another system the program runs all the same, and may outlive its parent.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except AttributeError:
        pass
    else:
        if os.getppid() != int(sys.argv[1]):
            sys.exit(1)  # it ended before
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - what the parent named
