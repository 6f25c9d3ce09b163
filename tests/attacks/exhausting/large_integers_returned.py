# Returns integers of a hundred thousand digits, which the host would have to read.
# verdict: incorrect timeout

NUMBER = 10 ** 99_999 + 7


def solve(xs):
    return [NUMBER + n for n in range(160)]
