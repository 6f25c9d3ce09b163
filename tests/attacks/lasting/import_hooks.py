# Leaves import hooks and a path behind. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import sys

RIGHT = "/rapid_mark" in sys.path
class Finder:
    def find_spec(self, *rest):
        raise ImportError("not any more")


sys.path.insert(0, "/rapid_mark")
sys.meta_path.append(Finder())


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
