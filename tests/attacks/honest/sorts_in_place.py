# Changes what a test made earlier, under another name.
# verdict: correct
# task: statements

def solve(xs):
    xs.sort()
