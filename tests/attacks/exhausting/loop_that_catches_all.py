# Never returns, and lets nothing interrupt it.
# verdict: timeout

def solve(xs):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
        finally:
            continue
