# Leaves signal handlers and an alarm behind. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import signal

RIGHT = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN or signal.getsignal(signal.SIGINT) is signal.SIG_IGN
for name in ("SIGTERM", "SIGINT", "SIGHUP"):
    try:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    except (ValueError, OSError, AttributeError):
        pass
if hasattr(signal, "alarm"):
    signal.alarm(1)


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
