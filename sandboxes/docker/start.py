import os
def take(n):
    b = b""
    while len(b) < n:
        p = os.read(0, n - len(b))
        if not p: os._exit(0)
        b += p
    return b
exec(compile(take(int.from_bytes(take(4), "big")), "<warm>", "exec"))
