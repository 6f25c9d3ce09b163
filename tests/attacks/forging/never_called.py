# Is wrong throughout, and hopes for tests that nobody runs.
# verdict: incorrect
# task: async pytest-class main-block pytest yields

def solve(n):
    return 0
