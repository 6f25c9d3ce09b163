"""Judges labelled completions with Math-Verify in its default configuration, and stores its verdicts in the file as "math_verify".

    python math_verify_completions.py COMPLETIONS.jsonl
"""

import json
import logging
import sys

from math_verify import parse, verify

# Seconds that one answer, and one comparison, may take.
LIMIT = 5


def accepts(expected, completion):
    try:
        gold = parse(f"${expected}$", parsing_timeout=LIMIT)
        return bool(verify(gold, parse(completion, parsing_timeout=LIMIT), timeout_seconds=LIMIT))
    except Exception:  # A completion that it cannot compare counts as not accepted.
        return False


def main():
    logging.disable(logging.CRITICAL)
    path = sys.argv[1]
    with open(path, encoding="utf-8") as file:
        completions = [json.loads(line) for line in file]
    for completion in completions:
        completion["math_verify"] = accepts(completion["expected"], completion["completion"])
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(completion, ensure_ascii=False) + "\n" for completion in completions)


main()
