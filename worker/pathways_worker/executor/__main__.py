"""The executor: the XLA child of a worker daemon, started by it and never by hand. No gRPC and no event loop in here.

Says it is ready with an empty report once jax is imported; its first command is an EpochBegin, and it serves one epoch in
its life.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from pathways_common.process.child import die_with_parent
from pathways_common.process.condition import keep_stacks

# Tests show with these what the two rules prevent; a daemon hands no such variable on.
NO_ORDER_CHECK = "PATHWAYS_TEST_NO_ORDER_CHECK"
NO_FALLIBLE_RULE = "PATHWAYS_TEST_NO_FALLIBLE_RULE"
# Injected preparation: nanoseconds per launch of this host when a run arrives.
PREPARE_DELAY_NS = "PATHWAYS_PREPARE_DELAY_NS"


def main() -> None:
    """Runs until the daemon closes the control channel."""
    die_with_parent()
    parser = argparse.ArgumentParser(prog="python -m pathways_worker.executor", description=__doc__)
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--data-fd", type=int, required=True)
    parser.add_argument("--callback-fd", type=int, required=True)
    parser.add_argument("--segment-fd", type=int, help="where descriptors of shared memory come")
    parser.add_argument("--device-count", type=int, default=1)
    parser.add_argument("--host", default="", help="name of this host in plans")
    parser.add_argument("--progress-fd", type=int, help="shared memory that tells the daemon how far this process had come")
    parser.add_argument("--stacks-fd", type=int, help="where the stacks of all threads go when SIGUSR1 comes")
    parser.add_argument("--ffi-library", action="append", default=[], help="native code that programs may call on this host")
    parser.add_argument("--no-python", action="store_true", help="colocated Python is refused")
    parser.add_argument("--split-threads", action="store_true", help="keep the dispatcher and the gloo thread on different CPUs")
    parser.add_argument("--batch-scheduling", action="store_true", help="threads that wake take no core from others")
    parser.add_argument("--device-memory", type=int, default=0, help="bytes that each device has; 0 = no limit of its own")
    arguments = parser.parse_args()
    if arguments.batch_scheduling:
        try:  # before there are threads, which inherit it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError as error:
            sentence = f"thread_scheduling: the system refuses SCHED_BATCH ({error.strerror}); threads keep the usual class"
            print(sentence, file=sys.stderr, flush=True)
    if arguments.stacks_fd is not None:
        keep_stacks(arguments.stacks_fd)
    control, data, callback = (
        socket.socket(fileno=fd) for fd in (arguments.control_fd, arguments.data_fd, arguments.callback_fd)
    )

    segments = None if arguments.segment_fd is None else socket.socket(fileno=arguments.segment_fd)

    # Only now: these import jax, which takes about a second.
    from pathways_worker.executor import module_reader, runtime
    from pathways_worker.executor.callbacks import CallbackChannel
    from pathways_worker.executor.data_channel import DataChannel
    from pathways_worker.executor.dispatcher import Dispatcher, Settings
    from pathways_worker.executor.ffi_libraries import LibraryRefused, load_libraries
    from pathways_worker.executor.progress import Progress

    runtime.prepare_process()
    # What is there now stays; the collector need not look at a million objects of jax again.
    gc.freeze()
    # Before there are threads, and libraries of the host's.
    module_reader.start()
    try:
        ffi_targets = load_libraries(arguments.ffi_library)
    except LibraryRefused as refusal:
        sys.exit(f"executor not started: {refusal}")
    progress = Progress(arguments.progress_fd)
    progress.start_beat()
    dispatcher = Dispatcher(
        control,
        DataChannel(data, segments),
        CallbackChannel(callback),
        progress,
        Settings(
            host=arguments.host,
            device_count=arguments.device_count,
            check_order=not os.environ.get(NO_ORDER_CHECK),
            await_fallible=not os.environ.get(NO_FALLIBLE_RULE),
            prepare_delay_ns=int(os.environ.get(PREPARE_DELAY_NS) or 0),
            ffi_targets=ffi_targets,
            split_threads=arguments.split_threads,
            device_memory_bytes=arguments.device_memory,
            python=not arguments.no_python,
        ),
    )
    end_with(dispatcher.run)


def end_with(run: Callable[[], str]) -> NoReturn:
    """Ends the process when that is over, with the reason that it gives."""
    try:
        reason = run()
    except BrokenPipeError:
        reason = "the daemon is gone"
    except BaseException:
        # The interpreter must not end while other threads are inside XLA: that would look like a program's abort.
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)
    print(f"executor ends: {reason}", file=sys.stderr, flush=True)
    # Not a clean-up: a live client of a group waits for its peers in its destructor.
    os._exit(0)


if __name__ == "__main__":
    main()
