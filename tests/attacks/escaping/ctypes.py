# Calls the C library.
# verdict: incorrect
# task: values asserts

def solve(xs):
    try:
        import ctypes

        library = ctypes.CDLL(None)
        library.system(b"touch @FOLDER@/written")
        library.ptrace(0, 0, 0, 0)
        library.unshare(0x10000000)
        library.mount(b"none", b"/proc", b"proc", 0, None)
        return library.getuid()
    except (ImportError, OSError, AttributeError, TypeError):
        return "refused"
