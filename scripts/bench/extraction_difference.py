"""Prints the paired difference of Pass@1 between runs with two rules, over seeds and tasks, with a 95% interval by resampling both."""

import json
import random
import sys

out, *seeds = sys.argv[1:]


def shares(rule, seed, split):
    """Share of right samples, by task."""
    rewards = {}
    with open(f"{out}/{rule}-{seed}.{split}.jsonl", encoding="utf-8") as file:
        for sample in map(json.loads, file):
            if sample["reward"] is not None:
                rewards.setdefault(sample["task"], []).append(sample["reward"])
    return {task: sum(of_task) / len(of_task) for task, of_task in rewards.items()}


for split in ("eval", "train"):
    rates = {(rule, seed): shares(rule, seed, split) for rule in ("last-block", "program") for seed in seeds}
    both = sorted(set.intersection(*[set(of_run) for of_run in rates.values()]))
    differences = []
    for seed in seeds:
        old, new = rates["last-block", seed], rates["program", seed]
        differences.append([new[name] - old[name] for name in both])
        before, after = [100 * sum([rule[name] for name in both]) / len(both) for rule in (old, new)]
        print(f"{split}, seed {seed}: last-block {before:.1f}%, program {after:.1f}%, {len(both)} tasks")

    rng = random.Random(0)
    means = []
    for _ in range(10_000):
        # Every seed has the same tasks, so the tasks are resampled once for all seeds.
        tasks = [rng.randrange(len(differences[0])) for _ in differences[0]]
        sampled_seeds = [rng.choice(differences) for _ in differences]
        means.append(sum(row[task] for row in sampled_seeds for task in tasks) / (len(sampled_seeds) * len(tasks)))
    means.sort()
    mean = sum(map(sum, differences)) / sum(map(len, differences))
    print(f"{split}: program - last-block: {100 * mean:+.1f} points, 95% interval {100 * means[250]:+.1f} to {100 * means[9749]:+.1f}")
