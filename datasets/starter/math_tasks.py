"""The tasks of starter-math and starter-math-400: sums, differences, products and one-step word problems of numbers up to 99, most of them up to 20.

In starter-math every pair of numbers occurs once for each operation, in plain and word problems together. So no question of the evaluation
split is a training question in other words. The pairs of the few-shot prompt's examples do not occur.

starter-math-400 has the same training tasks and 400 other tasks to evaluate on, in the same proportions. Few pairs of small numbers are left, so a pair
may occur in several of them, and in the evaluation split of starter-math, each time in other words. No pair of the training tasks occurs.
"""

import collections
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


def pair_of(op, a, b):
    """What two questions have in common if one answers the other: a sum or product does not depend on the order."""
    return (op, a, b) if op == "-" else (op, min(a, b), max(a, b))


def ask(rng, op, template, a, b):
    question = template.format(a=a, b=b, name=rng.choice(NAMES), things=rng.choice(THINGS))
    return {"question": question, "answer": str(result(op, a, b))}


def splits(seed=20260101):
    """The training and evaluation tasks of starter-math, each with its pair and its template."""
    rng = random.Random(seed)
    seen, tasks = set(IN_THE_PROMPT), []
    for op, word, a_range, b_range, count in PLAN:
        templates = (WORD if word else PLAIN)[op]
        count_done = 0
        while count_done < count:
            a, b = rng.randint(*a_range), rng.randint(*b_range)
            pair = pair_of(op, a, b)
            if pair in seen or (op == "-" and a - b < 1):
                continue
            seen.add(pair)
            template = templates[count_done % len(templates)]
            tasks.append((ask(rng, op, template, a, b), pair, template))
            count_done += 1
    assert len(tasks) == TRAIN + EVAL, len(tasks)
    assert len({task["question"] for task, _, _ in tasks}) == len(tasks)
    rng.shuffle(tasks)
    return tasks[:TRAIN], tasks[TRAIN:]


def records():
    for split, tasks in zip(("train", "eval"), splits()):
        for number, (task, _, _) in enumerate(tasks, 1):
            yield {"id": f"{split}-{number}", **task, "split": split}


def further_records(seed=20260102):
    """The evaluation tasks of starter-math-400. Among the pairs that are not trained on, those that were used least come first."""
    rng = random.Random(seed)
    train, held_out = splits()
    # 2 + 2 is trained on, and 2 * 2 has the same numbers and answer.
    excluded = IN_THE_PROMPT | {("*", 2, 2)} | {pair for _, pair, _ in train}
    uses = collections.Counter(pair for _, pair, _ in held_out)
    asked = {(template, pair) for _, pair, template in held_out}
    tasks = []
    for op, word, (a_min, a_max), (b_min, b_max), count in PLAN:
        templates = (WORD if word else PLAIN)[op]
        numbers = [(a, b) for a in range(a_min, a_max + 1) for b in range(b_min, b_max + 1) if op != "-" or a > b]
        numbers = [(a, b) for a, b in numbers if pair_of(op, a, b) not in excluded]
        for i in range(count):
            template = templates[i % len(templates)]
            new = [(a, b) for a, b in numbers if (template, pair_of(op, a, b)) not in asked]
            least = min(uses[pair_of(op, a, b)] for a, b in new)
            a, b = rng.choice([(a, b) for a, b in new if uses[pair_of(op, a, b)] == least])
            pair = pair_of(op, a, b)
            uses[pair] += 1
            asked.add((template, pair))
            tasks.append(ask(rng, op, template, a, b))
    rng.shuffle(tasks)
    for number, task in enumerate(tasks, 1):
        yield {"id": f"eval-{number}", **task, "split": "eval"}
