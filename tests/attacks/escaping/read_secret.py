# Reads a file of the test's own machine, by every way to open one.
# verdict: incorrect
# task: values asserts

import io
import os

PATH = "@FOLDER@/secret"


def solve(xs):
    ways = [
        lambda: open(PATH).read(),
        lambda: io.FileIO(PATH).read(),
        lambda: os.read(os.open(PATH, os.O_RDONLY), 100),
        lambda: __import__("pathlib").Path(PATH).read_text(),
        lambda: __import__("linecache").getlines(PATH),
        lambda: __import__("runpy").run_path(PATH),
        lambda: __import__("fileinput").input([PATH]).readline(),
        lambda: __import__("numpy").fromfile(PATH, dtype="u1").tobytes(),
        lambda: open("/usr/local/lib/../../.." + PATH).read(),
        lambda: open("../" * 20 + PATH[1:]).read(),
    ]
    found = []
    for way in ways:
        try:
            found.append(way())
        except Exception as error:
            found.append(type(error).__name__)
    print(found)
    return found
