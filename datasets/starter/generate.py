#!/usr/bin/env python3
"""Generates the starter sets' .jsonl files from the tasks in math_tasks.py, code_tasks.py and lean_tasks.py.

    python3 datasets/starter/generate.py            writes the files, after it has run every program against its tests
    python3 datasets/starter/generate.py --check    compares the files with what would be written
    python3 datasets/starter/generate.py --lean     prints the theorems with their proofs, for Lean to check
"""

import base64
import copy
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True

import code_tasks
import lean_tasks
import math_tasks

HERE = pathlib.Path(__file__).parent


def tagged(value):
    """A Python value in the tagged JSON form of the crate's `Value`."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else {"$int": str(value)}
    if isinstance(value, float):
        return value if abs(value) != float("inf") and value == value else {"$float": repr(value)}
    if isinstance(value, complex):
        return {"$complex": [value.real, value.imag]}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [tagged(v) for v in value]
    if isinstance(value, tuple):
        return {"$tuple": [tagged(v) for v in value]}
    if isinstance(value, frozenset):
        return {"$frozenset": [tagged(v) for v in sorted(value, key=repr)]}
    if isinstance(value, set):
        return {"$set": [tagged(v) for v in sorted(value, key=repr)]}
    if isinstance(value, dict):
        if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: tagged(v) for k, v in value.items()}
        return {"$dict": [[tagged(k), tagged(v)] for k, v in value.items()]}
    raise TypeError(type(value))


def same(got, expected):
    if isinstance(expected, float) and isinstance(got, float):
        return abs(got - expected) <= 1e-6
    return type(got) is type(expected) and got == expected


def code_records():
    """Records of all tasks. Each task's program must pass its tests."""
    names = set()
    for i, (question, program, tests) in enumerate(code_tasks.TASKS):
        name = re.findall(r"^def (\w+)\(", program, flags=re.M)[-1]
        assert name not in names and len(tests) >= 6, name
        names.add(name)
        scope = {}
        exec(program, scope)
        for args, expected in tests:
            got = scope[name](*copy.deepcopy(args))
            assert same(got, expected), f"{name}{args!r} gives {got!r}, not {expected!r}"
        args, expected = tests[0]
        yield {
            "id": name,
            "question": question,
            "entry_point": name,
            "canonical": program,
            "example": f"assert {name}({', '.join(map(repr, args))}) == {expected!r}",
            "tests": [{"args": [tagged(a) for a in args], "expected": tagged(expected)} for args, expected in tests],
            "split": "eval" if i % 4 == 3 else "train",
        }


def lean_records():
    for i, (question, statement, proof) in enumerate(lean_tasks.TASKS):
        yield {
            "id": statement.split()[1],
            "question": question,
            "header": "",
            "statement": statement,
            "proof": proof,
            "split": "eval" if i in lean_tasks.EVAL else "train",
        }


def files():
    for name, records, count in [
        ("starter-math.jsonl", math_tasks.records(), 400),
        ("starter-math-400.jsonl", math_tasks.further_records(), 400),
        ("starter-code.jsonl", code_records(), 60),
        ("starter-lean.jsonl", lean_records(), 25),
    ]:
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        assert len(lines) == count and len({json.loads(line)["id"] for line in lines}) == count, name
        yield HERE / name, "".join(lines)


if __name__ == "__main__":
    if "--lean" in sys.argv[1:]:
        print("\n\n".join(f"{statement}\n  {proof}" for _, statement, proof in lean_tasks.TASKS))
    elif "--check" in sys.argv[1:]:
        wrong = [path.name for path, text in files() if path.read_text(encoding="utf-8") != text]
        sys.exit(f"these files differ from the output of generate.py: {', '.join(wrong)}" if wrong else 0)
    else:
        for path, text in files():
            path.write_text(text, encoding="utf-8")
