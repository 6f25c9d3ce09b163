# The entry point is a lambda.
# verdict: correct

solve = lambda xs: sorted(x * x for x in xs if x % 2 == 0)
