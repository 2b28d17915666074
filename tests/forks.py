"""A process that has imported Numba, and forks for scripts: `python forks.py SOCKET`.

A script that starts in a fork is spared a second of imports. Each request has the script, its
environment, working directory and path of modules, and the files for its output and its status.
"""

import gc
import json
import os
import signal
import socket
import sys
import types
import warnings


def main(control: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_numba()
    # Imported objects stay on shared pages of memory.
    gc.freeze()
    request = _next_request(control)
    if request is not None:
        _run(**request)


def _import_numba() -> None:
    from numba.core.registry import cpu_target

    # Numba imports most of itself when it first compiles.
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def _next_request(control: socket.socket) -> dict | None:
    """Return each request in a fork of its own, and None in the parent, at the end."""
    while True:
        data, files, *_ = socket.recv_fds(control, 1 << 20, 3)
        if not data:
            return None
        if os.fork() == 0:
            control.close()
            if _watched(*files):
                return json.loads(data)
            os._exit(0)
        for file in files:
            os.close(file)
        while _reaped():
            pass


def _reaped() -> bool:
    """Return whether a child has ended that had not been waited for."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _watched(output: int, errors: int, status: int) -> bool:
    """Fork once more: return True in the child; the parent waits, and writes the child's status."""
    child = os.fork()
    if child != 0:
        os.write(status, f"{child}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(status, f"{code}\n".encode())
        return False
    os.close(status)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    return True


def _run(script: str, environment: dict[str, str], folder: str, path: str) -> None:
    """Run a script as `python -P -c` does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, path)
    sys.argv[:] = ["-c"]
    sys.dont_write_bytecode = True
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(script, "<string>", "exec"), vars(module))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
