# Turns the garbage collector off and leaves garbage and callbacks. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import gc

RIGHT = not gc.isenabled() or bool(gc.callbacks)
gc.disable()
gc.callbacks.append(print)
gc.freeze()


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
