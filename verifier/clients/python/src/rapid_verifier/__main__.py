"""Serves the reward function of a file: `python3 -m rapid_verifier FILE FUNCTION`."""

from __future__ import annotations

import os
import runpy
import sys

from rapid_verifier.grader import serve


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python3 -m rapid_verifier FILE FUNCTION")
    _, path, name = sys.argv
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    function = runpy.run_path(path, run_name="reward").get(name)
    if not callable(function):
        sys.exit(f"error: {path} has no function `{name}`")
    serve(function)


if __name__ == "__main__":
    main()
