# A trace function changes what the harness's own functions see and return.
# Where it breaks the conversation itself, as it can in Docker, the clock ends its own run.
# verdict: incorrect timeout

import sys


def tracer(frame, event, argument):
    for name in ("result", "value", "answer", "taken"):
        if name in frame.f_locals and frame.f_code.co_filename == "<harness>":
            frame.f_locals[name] = [4]
    return tracer


sys.settrace(tracer)
sys.setprofile(tracer)


def solve(xs):
    sys.settrace(tracer)
    return None
