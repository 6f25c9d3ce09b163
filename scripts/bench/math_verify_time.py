"""Compares the pairs of a file with Math-Verify, on one thread, and prints the number of other verdicts and the speed, as JSON.

    python math_verify_time.py PAIRS.tsv
"""

import json
import logging
import sys
import time

from math_verify import parse, verify

# Seconds that one answer, and one comparison, may take.
LIMIT = 5


def same(expected, given):
    try:
        sides = [parse(f"${answer}$", parsing_timeout=LIMIT) for answer in (expected, given)]
        return bool(verify(*sides, timeout_seconds=LIMIT))
    except Exception:  # A pair that it cannot compare counts as not accepted.
        return False


def main():
    logging.disable(logging.CRITICAL)
    lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    for verdict, expected, given in pairs[:20]:
        same(expected, given)  # Modules that are loaded at first use are not part of the measurement.
    wrong, times = [], []
    for verdict, expected, given in pairs:
        started = time.perf_counter()
        accepted = same(expected, given)
        times.append(time.perf_counter() - started)
        if accepted != (verdict != "!"):
            wrong.append([verdict, expected, given])
    within_limit = [seconds for seconds in times if seconds < LIMIT]
    print(json.dumps({
        "threads": 1,
        "pairs": len(pairs),
        "wrong": len(wrong),
        "wrongly_accepted": sum(verdict == "!" for verdict, _, _ in wrong),
        "wrongly_refused": sum(verdict != "!" for verdict, _, _ in wrong),
        "timed_out": len(times) - len(within_limit),
        "pairs_per_second_without_those": round(len(within_limit) / sum(within_limit)),
        "slowest_us": round(max(within_limit) * 1e6),
    }, indent=2))


main()
