"""The tasks of starter-math: sums, differences, products and one-step word problems of numbers up to 99, most of them up to 20.

Every pair of numbers occurs once for each operation, in plain and word problems together. So no question of the evaluation
split is a training question in other words. The pairs of the few-shot prompt's examples do not occur.
"""

import random

IN_THE_PROMPT = {("+", 2, 6), ("-", 9, 4), ("*", 2, 3), ("-", 8, 5)}

PLAIN = {
    "+": [
        "What is {a} + {b}?",
        "Add {a} and {b}.",
        "What is the sum of {a} and {b}?",
        "Calculate {a} + {b}.",
        "How much is {a} plus {b}?",
        "Find the total of {a} and {b}.",
        "Work out {a} + {b}.",
        "Which number is {b} more than {a}?",
    ],
    "-": [
        "What is {a} - {b}?",
        "Subtract {b} from {a}.",
        "What is the difference between {a} and {b}?",
        "Calculate {a} - {b}.",
        "How much is {a} minus {b}?",
        "Take {b} away from {a}.",
        "Work out {a} - {b}.",
        "Which number is {b} less than {a}?",
    ],
    "*": [
        "What is {a} * {b}?",
        "Multiply {a} by {b}.",
        "What is the product of {a} and {b}?",
        "Calculate {a} * {b}.",
        "How much is {a} times {b}?",
        "Work out {a} x {b}.",
    ],
}

WORD = {
    "+": [
        "{name} has {a} {things} and finds {b} more. How many {things} does {name} have now?",
        "{name} read {a} pages on Monday and {b} pages on Tuesday. How many pages is that in all?",
        "There are {a} red and {b} blue {things} in a bag. How many {things} are in the bag?",
        "A bus carries {a} people, and {b} more get on. How many people are on the bus?",
        "{name} walked {a} metres and then another {b} metres. How many metres did {name} walk?",
        "A farmer has {a} hens and {b} ducks. How many birds does the farmer have?",
        "{name} paid {a} dollars for a shirt and {b} dollars for a hat. How many dollars did {name} pay?",
        "It was {a} degrees in the morning and became {b} degrees warmer. What was the temperature then?",
    ],
    "-": [
        "{name} had {a} {things} and gave away {b}. How many {things} are left?",
        "A book has {a} pages. {name} has read {b} of them. How many pages remain?",
        "There were {a} birds on a tree, and {b} flew away. How many birds stayed?",
        "{name} has {a} dollars and spends {b} dollars. How many dollars remain?",
        "A rope is {a} metres long. {name} cuts off {b} metres. How many metres are left?",
        "Of {a} {things} in a shop, {b} were sold. How many are still there?",
        "{name} is {a} years old and has a sister who is {b} years younger. How old is the sister?",
        "A tank held {a} litres of water, and {b} litres leaked out. How many litres are left?",
    ],
    "*": [
        "Each bag holds {a} {things}. How many {things} are in {b} bags?",
        "{name} runs {a} kilometres every day. How many kilometres is that in {b} days?",
        "A ticket costs {a} dollars. How many dollars do {b} tickets cost?",
        "There are {b} rows with {a} chairs each. How many chairs are there?",
        "{name} buys {b} packs of {a} {things}. How many {things} is that?",
        "A spider species has {a} spots. How many spots do {b} of these spiders have?",
        "A shelf holds {a} books. How many books do {b} shelves hold?",
        "{name} saves {a} dollars a week. How many dollars is that after {b} weeks?",
    ],
}

NAMES = ["Anna", "Ben", "Carla", "David", "Emma", "Finn", "Grace", "Hugo", "Iris", "Jonas", "Kira", "Leo", "Maya", "Omar", "Rosa", "Sam"]
THINGS = ["apples", "marbles", "pencils", "stamps", "cards", "shells", "coins", "buttons", "cookies", "stones"]

# (operation, word problem?, range of a, range of b, number of tasks). Most numbers are small, so that a model of a hundred million weights is sometimes right:
# reinforcement learning needs some right samples to start.
PLAN = [
    ("+", False, (1, 9), (1, 9), 22),
    ("+", True, (1, 9), (1, 9), 20),
    ("-", False, (2, 10), (1, 9), 20),
    ("-", True, (2, 10), (1, 9), 20),
    ("*", False, (2, 9), (2, 9), 16),
    ("*", True, (2, 9), (2, 9), 16),
    ("+", False, (10, 20), (1, 9), 40),
    ("+", True, (10, 20), (1, 9), 40),
    ("-", False, (11, 20), (1, 9), 40),
    ("-", True, (11, 20), (1, 9), 40),
    ("*", False, (10, 12), (2, 9), 22),
    ("+", False, (20, 60), (10, 39), 32),
    ("+", True, (20, 60), (10, 39), 20),
    ("-", False, (30, 99), (10, 39), 32),
    ("-", True, (30, 80), (10, 39), 20),
]
TRAIN, EVAL = 300, 100


def result(op, a, b):
    return {"+": a + b, "-": a - b, "*": a * b}[op]


def records(seed=20260101):
    rng = random.Random(seed)
    seen, tasks = set(IN_THE_PROMPT), []
    for op, word, a_range, b_range, count in PLAN:
        templates = (WORD if word else PLAIN)[op]
        count_done = 0
        while count_done < count:
            a, b = rng.randint(*a_range), rng.randint(*b_range)
            key = (op, a, b) if op == "-" else (op, min(a, b), max(a, b))
            if key in seen or (op == "-" and a - b < 1):
                continue
            seen.add(key)
            template = templates[count_done % len(templates)]
            question = template.format(a=a, b=b, name=rng.choice(NAMES), things=rng.choice(THINGS))
            tasks.append({"question": question, "answer": str(result(op, a, b))})
            count_done += 1
    assert len(tasks) == TRAIN + EVAL, len(tasks)
    assert len({task["question"] for task in tasks}) == len(tasks)
    rng.shuffle(tasks)
    for i, task in enumerate(tasks):
        split, number = ("train", i + 1) if i < TRAIN else ("eval", i + 1 - TRAIN)
        yield {"id": f"{split}-{number}", **task, "split": split}
