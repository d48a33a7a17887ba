"""The command line. From its first import on, Ctrl-C ends the command without a traceback; commands that have something to clean
up take the signal over (`signals.Interrupts`)."""

from __future__ import annotations

import os
import signal
import sys

if os.path.basename(sys.argv[0]) == "pathways" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
