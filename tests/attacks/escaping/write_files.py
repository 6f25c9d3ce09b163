# Writes files wherever it can.
# verdict: incorrect
# task: values asserts

import os


def solve(xs):
    for path in ("@FOLDER@/written", "/tmp/rapid-mark", "rapid-mark", "/rapid-mark", "/usr/local/lib/rapid-mark", "/dev/shm/rapid-mark", "/var/tmp/rapid-mark"):
        try:
            with open(path, "w") as file:
                file.write("x")
        except OSError:
            pass
        try:
            os.open(path, os.O_CREAT | os.O_WRONLY)
        except OSError:
            pass
    return "written"
