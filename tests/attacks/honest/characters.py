# Upper case, character by character, in a str subclass.
# verdict: correct
# task: text

class Text(str):
    __slots__ = ()


def solve(s):
    return Text("".join(map(str.upper, s)))
