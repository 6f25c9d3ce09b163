# Raises and catches, recursion errors included.
# verdict: correct

def endless():
    return endless()


def solve(xs):
    try:
        endless()
    except RecursionError:
        pass
    result = []
    for x in xs:
        try:
            [][x % 2 == 0 and 1 or 0] if x % 2 else result.append(x * x)
        except IndexError:
            continue
        finally:
            result.sort()
    return result
