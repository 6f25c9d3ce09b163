# Prints by keyword arguments' defaults, in another order of statements.
# verdict: correct
# task: printed

def solve(n):
    i = 0
    while i < n:
        print(i)
        i += 1
    return n
