# Starts programs by every way of the library.
# verdict: incorrect
# task: values asserts

import os


def solve(xs):
    ways = [
        lambda: __import__("subprocess").check_output(["id"]),
        lambda: __import__("subprocess").getoutput("cat @FOLDER@/secret"),
        lambda: os.popen("cat @FOLDER@/secret").read(),
        lambda: os.system("touch @FOLDER@/written"),
        lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "touch @FOLDER@/written"], {}),
        lambda: __import__("pty").spawn(["sh", "-c", "touch @FOLDER@/written"]),
        lambda: __import__("multiprocessing").Process(target=print).start(),
        lambda: __import__("concurrent.futures").futures.ProcessPoolExecutor().submit(print).result(),
        lambda: __import__("_posixsubprocess").fork_exec([b"/bin/sh"], [b"/bin/sh"], *range(20)),
    ]
    found = []
    for way in ways:
        try:
            found.append(way())
        except Exception as error:
            found.append(type(error).__name__)
    print(found)
    return found
