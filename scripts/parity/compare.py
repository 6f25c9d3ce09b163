"""Compares, and exits with 1 if there is a difference.

python compare.py golden OLD.json NEW.json            golden values with golden values
python compare.py prompts GOLDEN.json                 the golden prompts as input of `rapid generate`, on stdout
python compare.py model MODEL GOLDEN.json OUT.jsonl   what `rapid generate --logprobs` wrote with MODEL (a GGUF file or a
                                                      checkpoint's folder) with what transformers computes from MODEL
"""

import json
import sys
from pathlib import Path

# If the two best logits are nearer than this, two correct implementations may rank them differently.
TIE = 1e-3
# Largest difference of log-probabilities between the engine and transformers, and between transformers on two machines.
ENGINE, MACHINE = 1e-3, 1e-4

differences = []


def check(ok: bool, words: str) -> None:
    if not ok:
        differences.append(words)


def load(path: str):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def golden(old: dict, new: dict) -> None:
    check(old["model"] == new["model"], f"the models differ: {old['model']} and {new['model']}")
    check(old["texts"] == new["texts"], "the token ids of the texts differ")
    check([p["name"] for p in old["prompts"]] == [p["name"] for p in new["prompts"]], "the prompts differ")
    worst = 0.0
    for a, b in zip(old["prompts"], new["prompts"]):
        check(a["text"] == b["text"] and a["prompt_tokens"] == b["prompt_tokens"], f"{a['name']}: the prompt's tokens differ")
        for i, (s, t, gap) in enumerate(zip(a["tokens"], b["tokens"], a["gap"])):
            if s != t:
                check(gap < TIE, f"{a['name']}: token {i} is {t}, was {s}, and no other logit was within {gap:.4f}")
                break
            worst = max(worst, abs(a["logp"][i] - b["logp"][i]))
    check(worst < MACHINE, f"log-probabilities differ by {worst:.2e}")
    print(f"golden values: {len(old['prompts'])} prompts, log-probabilities within {worst:.1e}")


def prompts(values: dict) -> None:
    for prompt in values["prompts"]:
        request = {"messages": prompt["messages"]} if "messages" in prompt else {"prompt": prompt["text"]}
        print(json.dumps({"id": prompt["name"], **request}))


def model(path: str, values: dict, lines: list[dict]) -> None:
    from reference import Reference

    reference = Reference(Path(path))
    wanted = {prompt["name"]: prompt for prompt in values["prompts"]}
    check(sorted(line["id"] for line in lines) == sorted(wanted), "not every prompt was completed")
    worst, count = 0.0, 0
    for line in lines:
        name, tokens = line["id"], line["token_ids"]
        prompt = wanted[name]["prompt_tokens"]
        check(reference.encode(wanted[name]["text"]) == prompt, f"{name}: this model's tokenizer differs from the golden one")
        measured = reference.measure(prompt, tokens)
        likeliest = reference.logits(prompt + tokens)[len(prompt) - 1:-1].argmax(dim=-1).tolist()
        for i, token in enumerate(tokens):
            check(token == likeliest[i] or measured["gap"][i] < TIE, f"{name}: token {i} is {token}, the likeliest is {likeliest[i]}")
            worst = max(worst, abs(measured["logp"][i] - line["logprobs"][i]))
            count += 1
    check(worst < ENGINE, f"log-probabilities differ by {worst:.2e}")
    print(f"{path}: {count} tokens of {len(lines)} prompts, log-probabilities within {worst:.1e}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["golden", old, new]:
            golden(load(old), load(new))
        case ["prompts", values]:
            prompts(load(values))
        case ["model", path, values, out]:
            model(path, load(values), [json.loads(line) for line in Path(out).read_text(encoding="utf-8").splitlines()])
        case _:
            sys.exit(__doc__)
    if differences:
        sys.exit("\n".join(differences[:20]))
