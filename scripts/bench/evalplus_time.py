"""Times EvalPlus on the programs that `rapid-verifier bench code` judges, and prints one JSON object.

EvalPlus's ground truth is computed and cached before the clock starts. Only the parts of EvalPlus that generate code are left out: they would need the clients
of several model vendors.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import resource
import sys
import tempfile
import time
import types


def records(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def processor_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="the folder that holds mbppplus/")
    parser.add_argument("--samples", help="programs to judge; by default, each task's canonical solution")
    parser.add_argument("--exclude", default="", help="task ids, separated by commas")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    known = {record["task_id"] for name in ("train", "eval") for record in records(f"{args.data}/mbppplus/{name}.jsonl")}
    known -= {int(number) for number in args.exclude.split(",") if number}
    tasks = {}
    for record in records(f"{args.data}/mbppplus/evalplus-v0.1.0.jsonl"):
        number = int(record["task_id"].rsplit("/", 1)[-1])
        if number in known:
            tasks[number] = record
    if args.samples:
        programs = [(record["task_id"], record["completion"]) for record in records(args.samples) if record["task_id"] in tasks]
    else:
        programs = [(number, task["prompt"] + task["canonical_solution"]) for number, task in tasks.items()]
    judged = {number for number, _ in programs}

    with tempfile.TemporaryDirectory() as folder:
        problems, samples = f"{folder}/problems.jsonl", f"{folder}/samples.jsonl"
        with open(problems, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(task) + "\n" for number, task in tasks.items() if number in judged)
        with open(samples, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"task_id": f"Mbpp/{number}", "solution": program}) + "\n" for number, program in programs)
        os.environ["MBPP_OVERRIDE_PATH"] = problems
        os.environ["XDG_CACHE_HOME"] = folder
        for name, attribute in (("datasets", "load_dataset"), ("evalplus.codegen", "run_codegen")):
            module = types.ModuleType(name)
            setattr(module, attribute, None)
            sys.modules[name] = module
        from evalplus import evaluate

        with contextlib.redirect_stdout(sys.stderr):
            problems = evaluate.get_mbpp_plus()
            evaluate.get_groundtruth(problems, evaluate.get_mbpp_plus_hash(), evaluate.MBPP_OUTPUT_NOT_NONE_TASKS)
            started, processor = time.monotonic(), processor_seconds()
            evaluate.evaluate("mbpp", samples=samples, parallel=args.workers)
            seconds, processor = time.monotonic() - started, processor_seconds() - processor
        with open(samples.replace(".jsonl", "_eval_results.json"), encoding="utf-8") as file:
            results = [one for several in json.load(file)["eval"].values() for one in several]
    wrong = [one["task_id"] for one in results if not one["base_status"] == one["plus_status"] == "pass"]
    print(
        json.dumps(
            {
                "evalplus": importlib.metadata.version("evalplus"),
                "workers": args.workers,
                "programs": len(results),
                "correct": len(results) - len(wrong),
                **({} if args.samples else {"wrong": wrong}),
                "seconds": round(seconds, 2),
                "processor_seconds": round(processor, 2),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
