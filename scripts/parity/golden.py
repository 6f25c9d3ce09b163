"""Computes the golden values: python golden.py MODEL.gguf OUT.json

For each prompt of prompts.json: its token ids, 32 greedy tokens, their log-probabilities at temperature 1, and at each
position the gap between the two best logits. For each text: its token ids.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from reference import Reference, sha256

COUNT = 32


def main(model: Path, out: Path) -> None:
    wanted = json.loads(Path(__file__).with_name("prompts.json").read_text(encoding="utf-8"))
    reference = Reference(model)
    known = wanted["system_prefix"]
    if reference.encode(known["text"]) != known["ids"]:
        sys.exit("the reference tokenizer is wrong: it does not encode the model's system prompt to its published ids")

    prompts = []
    for prompt in wanted["prompts"]:
        text = prompt["text"] if "text" in prompt else reference.chat(prompt["messages"])
        ids = reference.encode(text)
        if any(sum(c.isdigit() for c in reference.tokenizer.decode([i])) > 1 for i in ids):
            sys.exit(f"the reference tokenizer is wrong: {prompt['name']} has a token of several digits")
        prompts.append({**prompt, "text": text, "prompt_tokens": ids, **reference.greedy(ids, COUNT)})
        print(f"{prompt['name']}: {reference.tokenizer.decode(prompts[-1]['tokens'])!r}", file=sys.stderr)

    golden = {
        "model": {"name": "SmolLM2-135M-Instruct, Q4_1", "sha256": sha256(model)},
        "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers", "gguf")},
        "prompts": prompts,
        "texts": [{"text": text, "tokens": reference.encode(text)} for text in wanted["texts"]],
    }
    out.write_text(one_line_a_list(json.dumps(golden, ensure_ascii=False, indent=1)), encoding="utf-8")


def one_line_a_list(text: str) -> str:
    """Puts each list of numbers of an indented JSON text on one line, so that a change is one line of a diff."""
    lines, held = [], None
    for line in text.splitlines():
        if held is None and line.endswith("["):
            held = [line]
        elif held is not None:
            held.append(line.strip())
            if line.strip() in ("]", "],"):
                lines.append(held[0] + " ".join(held[1:-1]) + held[-1])
                held = None
            elif line.endswith(("{", "[")):
                lines += [held[0], line]
                held = None
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
