#!/usr/bin/env python3
"""Writes starter-math.jsonl and starter-code.jsonl beside this file. Deterministic: running it again changes nothing.

usage: python3 datasets/starter/generate.py
"""

import copy
import inspect
import json
import pathlib
import random
import textwrap

from code_tasks import TASKS

HERE = pathlib.Path(__file__).parent
MATH_TRAIN, MATH_EVAL = 300, 100
CODE_TRAIN = 45

NAMES = ["Ana", "Ben", "Chloe", "David", "Ella", "Farid", "Grace", "Hugo", "Iris", "Jonas", "Kira", "Liam", "Mina", "Noah", "Olga", "Pia", "Ravi", "Sara", "Tom", "Yuki"]
THINGS = ["apples", "books", "coins", "marbles", "pencils", "stamps", "stickers", "shells", "cards", "buttons"]
BOXES = [("boxes", "eggs"), ("bags", "oranges"), ("shelves", "books"), ("tables", "chairs"), ("rows", "trees"), ("packs", "pens"), ("teams", "players"), ("trays", "cakes")]


def bare(random):
    """A calculation in figures."""
    kind = random.choice("+-*")
    if kind == "+":
        a, b = random.randint(2, 60), random.randint(2, 39)
        return random.choice(["What is {} + {}?", "Compute {} + {}.", "Add {} and {}.", "What is the sum of {} and {}?"]).format(a, b), a + b
    if kind == "-":
        a = random.randint(5, 99)
        b = random.randint(1, a)
        return random.choice(["What is {} - {}?", "Compute {} - {}.", "How much is {} minus {}?"]).format(a, b), a - b
    a, b = random.randint(2, 12), random.randint(2, 9)
    return random.choice(["What is {} * {}?", "Compute {} times {}.", "What is the product of {} and {}?"]).format(a, b), a * b


def story(random):
    """A word problem of one step."""
    name, other = random.sample(NAMES, 2)
    thing = random.choice(THINGS)
    kind = random.randrange(6)
    if kind == 0:
        a, b = random.randint(2, 60), random.randint(2, 39)
        return f"{name} has {a} {thing} and finds {b} more. How many {thing} does {name} have now?", a + b
    if kind == 1:
        a = random.randint(5, 99)
        b = random.randint(1, a - 1)
        return f"{name} had {a} {thing} and gave {b} of them to {other}. How many {thing} does {name} have left?", a - b
    if kind == 2:
        a, b = random.randint(2, 12), random.randint(2, 9)
        box, content = random.choice(BOXES)
        return f"There are {a} {box} with {b} {content} each. How many {content} are there in all?", a * b
    if kind == 3:
        a, b = random.randint(2, 60), random.randint(2, 39)
        return f"{name} read {a} pages on Monday and {b} pages on Tuesday. How many pages is that together?", a + b
    if kind == 4:
        a = random.randint(10, 99)
        b = random.randint(1, a - 1)
        return f"{name} jumped {a} cm high and {other} jumped {b} cm high. By how many cm did {name} jump higher than {other}?", a - b
    b, quotient = random.randint(2, 9), random.randint(2, 12)
    return f"{name} shares {b * quotient} {thing} equally among {b} friends. How many {thing} does each friend get?", quotient


def math():
    """Distinct questions, a third in figures and the rest in words, shuffled; the last ones are held out."""
    generator = random.Random(20250607)
    seen = {}
    while len(seen) < MATH_TRAIN + MATH_EVAL:
        question, answer = (bare if len(seen) % 3 == 0 else story)(generator)
        seen.setdefault(question, answer)
    tasks = list(seen.items())
    generator.shuffle(tasks)
    for number, (question, answer) in enumerate(tasks):
        split = "train" if number < MATH_TRAIN else "eval"
        yield {"id": f"{number + 1:03}", "split": split, "question": question, "answer": str(answer)}


def encode(value):
    """Python value → the tagged JSON that the verifier reads."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        import base64

        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [encode(item) for item in value]}
    if isinstance(value, set):
        return {"$set": [encode(item) for item in sorted(value, key=repr)]}
    if isinstance(value, dict):
        return {"$dict": [[encode(key), encode(item)] for key, item in value.items()]}
    raise TypeError(f"no encoding for {type(value)}")


def code():
    """The tasks of code_tasks.py with the values that the canonical solutions return."""
    order = list(range(len(TASKS)))
    random.Random(7).shuffle(order)
    held_out = set(order[CODE_TRAIN:])
    for number, (function, argument_lists) in enumerate(TASKS):
        source = inspect.getsource(function)
        source = source[source.index("def ") :]
        docstring = inspect.getdoc(function)
        body = "\n".join(line for line in source.splitlines() if '"""' not in line)
        first = argument_lists[0]
        shown = ", ".join(repr(argument) for argument in first)
        yield {
            "id": function.__name__,
            "split": "eval" if number in held_out else "train",
            "question": docstring,
            "example": f"assert {function.__name__}({shown}) == {function(*copy.deepcopy(first))!r}",
            "entry_point": function.__name__,
            "canonical": textwrap.dedent(body) + "\n",
            "tests": [{"args": [encode(argument) for argument in arguments], "expected": encode(function(*copy.deepcopy(arguments)))} for arguments in argument_lists],
        }


def write(name, records):
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    (HERE / name).write_text("".join(lines), encoding="utf-8")
    print(f"{name}: {len(lines)} tasks")


if __name__ == "__main__":
    write("starter-math.jsonl", math())
    write("starter-code.jsonl", code())
