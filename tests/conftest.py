"""What every test may rely on, however the run was started."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background of a shell ignores interrupts, and so would every process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
