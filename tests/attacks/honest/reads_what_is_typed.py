# Reads what a test types in.
# verdict: correct
# task: typed

def solve():
    first = int(input('a? '))
    return first + int(input())
