# Returns a match, which has no encoding, where something that is not None is asked for.
# verdict: correct
# task: not-none

import re


def solve(s):
    return re.search("^[aeiou]", s)
