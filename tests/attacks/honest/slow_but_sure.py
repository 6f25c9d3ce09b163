# Takes its time.
# verdict: correct

def solve(xs):
    total = 0
    for n in range(20_000):
        total += n
    return sorted(x * x for x in xs if x % 2 == 0 and total)
