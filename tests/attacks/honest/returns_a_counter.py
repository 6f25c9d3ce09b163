# A counter, built by hand.
# verdict: correct
# task: counted

import collections


def solve(words):
    counts = collections.Counter()
    for word in words:
        counts[word] += 1
    return counts
