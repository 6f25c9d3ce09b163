# Doubles by shifting, whatever the size.
# verdict: correct
# task: loop pytest async pytest-class main-block

def solve(n):
    return n << 1
