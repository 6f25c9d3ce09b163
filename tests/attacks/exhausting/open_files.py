# Opens the same file without an end.
# verdict: incorrect timeout

def solve(xs):
    held = []
    try:
        while True:
            held.append(open("/usr/local/lib/python315.zip", "rb"))
    except OSError:
        return len(held)
