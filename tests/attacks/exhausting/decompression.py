# Decompresses a small text into gigabytes.
# verdict: memory incorrect timeout

import zlib


def solve(xs):
    small = zlib.compress(bytes(10 << 20), 9)
    for _ in range(3):
        small = zlib.compress(small * 50)
    large = small
    while True:
        large = zlib.decompress(large) * 100
