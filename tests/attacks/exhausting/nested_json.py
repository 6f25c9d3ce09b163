# Reads and writes JSON and pickles of great depth.
# verdict: incorrect timeout

import json
import pickle


def solve(xs):
    deep = []
    for _ in range(50_000):
        deep = [deep]
    for way in (lambda: json.loads("[" * 100_000 + "]" * 100_000), lambda: json.dumps(deep), lambda: pickle.dumps(deep), lambda: __import__("copy").deepcopy(deep), lambda: deep == [deep]):
        try:
            way()
        except (RecursionError, ValueError, MemoryError):
            pass
    return None
