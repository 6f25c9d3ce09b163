"""Checks that TensorBoard reads the numbers of a run folder's logs from its event file: compare.py RUN"""

import json
import sys
from pathlib import Path

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = Path(sys.argv[1])


def log(name):
    path = run / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def numbers(record, section):
    """Tag and value of each number of a record."""
    for name, value in record.items():
        if name in ("step", "ended_at"):
            continue
        if isinstance(value, dict):
            for key, inner in value.items():
                yield f"{section}/{name}_{key}", inner
        elif value is not None:
            yield f"{section}/{name}", value


expected = {}
for section, records in (("train", log("metrics.jsonl")), ("time", log("timings.jsonl"))):
    for record in records:
        for tag, value in numbers(record, section):
            expected.setdefault(tag, []).append((record["step"], value))
for record in log("eval.jsonl"):
    figures = {name: record[name] for name in ("masked", "length_mean", "truncated")}
    for k, estimate in record["pass_at"].items():
        figures |= {f"pass_at_{k}": estimate["mean"], f"pass_at_{k}_low": estimate["low"], f"pass_at_{k}_high": estimate["high"]}
    for tag, value in numbers(figures, "eval"):
        expected.setdefault(tag, []).append((record["step"], value))

# 0 keeps every event.
events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
events.Reload()
found = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
wrong = sorted(set(expected) - set(found))
wrong += sorted(tag for tag in set(found) - set(expected) if not tag.endswith("_tokens_per_second"))
assert not wrong, f"tags on one side only: {wrong}"
for tag, points in expected.items():
    assert [(e.step, e.value) for e in found[tag]] == [(step, float(numpy.float32(value))) for step, value in points], tag
    times = [event.wall_time for event in found[tag]]
    assert times == sorted(times) and times[0] > 1.6e9, f"{tag}: {times}"

print(f"TensorBoard reads {len(found)} curves of {sum(map(len, found.values()))} points, all as logged")
