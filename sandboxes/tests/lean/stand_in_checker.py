"""A stand-in for a kernel checker: OLEAN, SOURCE, and the module's name, which it must find on the LEAN_PATH."""

import os
import sys
from pathlib import Path

olean, source, module = sys.argv[1:]
found = [Path(folder) / f"{module}.olean" for folder in os.environ["LEAN_PATH"].split(":")]
if not found[0].samefile(olean) or Path(olean).read_text() != "compiled":
    sys.exit("the module is not where it should be")
if "unsound" in Path(source).read_text():
    print("(kernel) declaration type mismatch")
    sys.exit(1)
if "crash" in Path(source).read_text():
    os.abort()
