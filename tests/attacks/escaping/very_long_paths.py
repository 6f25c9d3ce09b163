# Opens paths of hundreds of megabytes, which a host might copy.
# verdict: incorrect timeout memory
# task: values asserts

def solve(xs):
    path = "x" * (100 << 20)
    for _ in range(1000):
        try:
            open(path)
        except OSError:
            pass
    return None
