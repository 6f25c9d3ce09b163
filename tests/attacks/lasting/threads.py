# Leaves threads and timers behind. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import threading

RIGHT = threading.active_count() > 1
for make in (lambda: threading.Thread(target=threading.Event().wait), lambda: threading.Timer(3600, print)):
    try:
        make().start()
    except RuntimeError:
        pass


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
