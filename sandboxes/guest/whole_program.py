"""Runs a whole program as `python3 main.py` does: the program reads its standard input, what it writes to standard output is kept, and it may exit.

Follows `event_loop.py`. Where the host itself answers file descriptors 0 and 1 (WebAssembly), `whole_program` gets no `stdin`. Where the conversation with the host has taken
their place (Docker), it gets the text, and files stand in for both. All that this file needs is bound before the program runs. A program that digs into the interpreter can make it
lie about that program's own output, which is all that the host asks for.
"""

import atexit
import gc
import io
import linecache
import os
import threading
import traceback

import _sitebuiltins

FILE_NAME = "main.py"
KEPT_ERRORS = 1 << 16  # bytes

leave, read_at, status_of = os._exit, os.pread, os.fstat
excepthook, print_exception, exc_info = sys.excepthook, traceback.print_exception, sys.exc_info


class Errors(io.RawIOBase):
    """Standard error: its first bytes."""

    def __init__(self):
        self.kept = bytearray()

    def writable(self):
        return True

    def fileno(self):
        return 2

    def write(self, data):
        taken = bytes(data)
        self.kept += taken[: max(KEPT_ERRORS - len(self.kept), 0)]
        return len(taken)


errors = Errors()
written = None  # the file that stands in for standard output, and how many of its bytes are sent


def whole_program(source, stdin, output):
    """Runs the program, and ends the process."""
    global written
    if stdin is not None:
        written = redirect(stdin, output), output
    open_streams()
    patch_threads()
    if "asyncio" in source:
        _rapid_patch_asyncio()
    os._exit = modules["posix"]._exit = finish
    for name in ("exit", "quit"):
        if not hasattr(builtins, name):
            setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    module = types.ModuleType("__main__")
    module.__file__, module.__builtins__ = FILE_NAME, builtins
    modules["__main__"] = module
    sys.argv = [FILE_NAME]
    linecache.cache[FILE_NAME] = (len(source), None, source.splitlines(True), FILE_NAME)
    status = 0
    try:
        exec(compile(source, FILE_NAME, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        status = status_after(error)
    status = shut_down(module, status)
    finish(status)


def redirect(stdin, output):
    """Has files stand in for standard input and output; returns another descriptor of the latter, since the program may close its own."""
    import resource

    for number, text in ((0, stdin), (1, "")):
        path = f"/tmp/.stream{number}"
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        opened = os.open(path, os.O_RDWR if number else os.O_RDONLY)
        os.unlink(path)
        os.dup2(opened, number)
    # One byte more shows that there was too much.
    resource.setrlimit(resource.RLIMIT_FSIZE, (output + 1, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return opened


def open_streams():
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", newline="\n", closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", newline="\n", closefd=False)
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(errors, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True)


def patch_threads():
    """There are no threads here: one runs to its end where it is started."""

    def start(self):
        if self._started.is_set():
            raise RuntimeError("threads can only be started once")
        self._started.set()
        try:
            self.run()
        except SystemExit:
            pass
        except BaseException:
            threading.excepthook(threading.ExceptHookArgs((*exc_info(), self)))

    def join(self, timeout=None):
        if not self._started.is_set():
            raise RuntimeError("cannot join thread before it is started")

    kind = threading.Thread
    kind.start, kind.join, kind.is_alive = start, join, lambda self: False
    threading.stack_size = lambda size=0: 0


def status_after(error):
    """The exit status of a program that `error` ended."""
    if isinstance(error, SystemExit):
        code = error.code
        if code is None or isinstance(code, int):
            return (code or 0) & 0xFF
        print_error(str(code))
        return 1
    trace = error.__traceback__.tb_next
    try:
        if sys.excepthook is excepthook:
            print_exception(type(error), error, trace)
        else:
            sys.excepthook(type(error), error, trace)
    except BaseException:
        pass
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def print_error(text):
    try:
        print(text, file=sys.stderr)
    except BaseException:
        pass


def shut_down(module, status):
    """What the interpreter does between a program's last line and its exit; returns the exit status."""
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass
    flushed = flush(sys.stdout)
    # Files that the program left open are flushed as they go.
    module.__dict__.clear()
    modules.pop("__main__", None)
    gc.collect()
    flushed = flush(sys.__stdout__) and flushed
    return status if flushed else 120


def flush(stream):
    try:
        if stream is not None and not stream.closed:
            stream.flush()
        return True
    except BaseException as error:
        print_error(f"{type(error).__name__}: {error}")
        return False


def finish(status):
    """Sends the host what the program wrote and its exit status, and ends the process."""
    size = 0
    if written is not None:
        file, room = written
        try:
            size = status_of(file).st_size
            for start in range(0, min(size, room), PIECE):
                send(b"O" + read_at(file, min(PIECE, room - start), start))
        except OSError:
            pass  # the program closed that too
    text = quote(errors.kept.decode("utf-8", "replace")).encode("utf-8", "replace")
    send(b"V[%d,%d,%s]" % (status & 0xFF, size, text))
    send(b"N")
    leave(0)
