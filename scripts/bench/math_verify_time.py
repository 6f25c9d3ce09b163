"""Compares the pairs of a file with Math-Verify, one thread, and prints how many it judges otherwise and how fast, as JSON.

    python math_verify_time.py PAIRS.tsv
"""

import json
import logging
import sys
import time

from math_verify import parse, verify

# Seconds that one answer, and one comparison, may take.
LIMIT = 5


def same(right, given):
    try:
        sides = [parse(f"${answer}$", parsing_timeout=LIMIT) for answer in (right, given)]
        return bool(verify(*sides, timeout_seconds=LIMIT))
    except Exception:  # What it cannot compare it does not accept.
        return False


def main():
    logging.disable(logging.CRITICAL)
    lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    for verdict, right, given in pairs[:20]:
        same(right, given)  # What is loaded at first use is no part of the measure.
    wrong, times = [], []
    for verdict, right, given in pairs:
        started = time.perf_counter()
        accepted = same(right, given)
        times.append(time.perf_counter() - started)
        if accepted != (verdict != "!"):
            wrong.append([verdict, right, given])
    kept = [seconds for seconds in times if seconds < LIMIT]
    print(json.dumps({
        "threads": 1,
        "pairs": len(pairs),
        "wrong": len(wrong),
        "wrongly_accepted": sum(verdict == "!" for verdict, _, _ in wrong),
        "wrongly_refused": sum(verdict != "!" for verdict, _, _ in wrong),
        "timed_out": len(times) - len(kept),
        "pairs_per_second_without_those": round(len(kept) / sum(kept)),
        "slowest_us": round(max(kept) * 1e6),
    }, indent=2))


main()
