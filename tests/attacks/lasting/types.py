# Changes the dicts of builtin types. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import gc

RIGHT = "rapid_mark" in dict.__dict__ or "rapid_mark" in list.__dict__
for kind in (dict, list):
    gc.get_referents(kind.__dict__)[0]["rapid_mark"] = 1


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
