"""Start a notebook's kernel by a fork of a process that has imported what all pages need.

Imports, and the verdicts on all claims, take a kernel ten seconds; there are a dozen pages. Sphinx
starts `serve` once, in a process of its own, and each kernel's command is `relay`, which asks for a
fork and waits for its end.
"""

import contextlib
import functools
import gc
import json
import os
import select
import signal
import socket
import sys
from importlib import import_module

# Nothing here may start JAX: its threads do not survive a fork.
NEEDED = (
    *("ipykernel.kernelapp", "matplotlib.pyplot", "seaborn", "scipy.stats", "scipy.optimize"),
    *("dp_accounting.pld", "dpstudy.page.search", "dpstudy.page.panels"),
    *("dpstudy.lab.train", "under_the_clip.ledger.figures", "under_the_clip.statements"),
)


def serve(address: str) -> None:
    """Fork a kernel for each connection, until standard input ends."""
    try:
        for name in NEEDED:
            import_module(name)
        claims = import_module("under_the_clip.claims")
        claims.judged = functools.cache(claims.judged)  # In a build nothing is trained.
        claims.ledger()
    except BaseException:
        os.rmdir(os.path.dirname(address))  # Nobody is to wait for it.
        raise
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(64)
        while True:
            ready, _, _ = select.select([server, sys.stdin], [], [])
            if sys.stdin in ready:
                break
            connection, _ = server.accept()
            if not os.fork():
                server.close()
                _become_kernel(connection)
            connection.close()
            _reap()
    _reap()
    os.unlink(address)
    os.rmdir(os.path.dirname(address))


def _reap() -> None:
    """Let go of the kernels that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become_kernel(connection: socket.socket) -> None:
    """Run a kernel in this process; its end closes the connection."""
    from ipykernel.kernelapp import IPKernelApp

    with connection.makefile() as request:
        wanted = json.loads(request.readline())
    os.chdir(wanted["folder"])
    os.environ.update(wanted["environment"])
    status = 1
    try:
        IPKernelApp.launch_instance(["-f", wanted["connection_file"]], parent_handle=os.getppid())
        status = 0
    finally:
        os._exit(status)


def relay(address: str, connection_file: str) -> None:
    """Ask for a kernel and wait for its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = {"connection_file": connection_file, "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        server.sendall(json.dumps(asked | {"environment": dict(os.environ)}).encode() + b"\n")
        server.recv(1)


if __name__ == "__main__":
    {"serve": serve, "relay": relay}[sys.argv[1]](*sys.argv[2:])
