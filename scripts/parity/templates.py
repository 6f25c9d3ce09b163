"""Computes the golden conversations: python templates.py TOKENIZERS OUT.json

TOKENIZERS is the folder that scripts/tokenizers.sh prints. For each family and each conversation: the text of its chat template with
the generation prompt, and the text's token ids. Today's date, which Llama's template inserts, is replaced by DATE.
"""

import json
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from golden import one_line_a_list
from transformers import AutoTokenizer

CONVERSATIONS = [
    [("user", "What is 2 + 2?")],
    [("system", "Answer in one word."), ("user", "The capital of France?")],
    [("user", "Hi"), ("assistant", "Hello! How can I help?"), ("user", "Count to three.")],
    [
        ("system", "You are terse."),
        ("user", "  leading and trailing blanks \n\n"),
        ("assistant", "\nyes\n"),
        ("user", "line\nbreaks\r\nand\ttabs"),
        ("assistant", ""),
        ("user", "{{ braces }} {% and %} <tags> & 'quotes' \"double\""),
    ],
    [("user", "ünïcode — 漢字 🦀🦀 123456789"), ("assistant", "def f(x):\n    return x ** 2"), ("user", "…")],
    [("system", ""), ("user", "")],
]
# Conversations that the family's template refuses, since their roles do not alternate.
REFUSED = {"gemma3": [("user", "one"), ("user", "two")]}


def main(tokenizers: Path, out: Path) -> None:
    families = {}
    for family in ("qwen2_5", "llama3_2", "gemma3"):
        tokenizer = AutoTokenizer.from_pretrained(tokenizers / family)
        cases = []
        for conversation in CONVERSATIONS:
            messages = [{"role": role, "content": content} for role, content in conversation]
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            text = text.replace(datetime.now().strftime("%d %b %Y"), "DATE")
            ids = tokenizer.encode(text, add_special_tokens=False)
            cases.append({"messages": messages, "text": text, "tokens": ids})
        families[family] = {"conversations": cases}
        if family in REFUSED:
            families[family]["refused"] = [{"role": role, "content": content} for role, content in REFUSED[family]]
    golden = {"versions": {name: version(name) for name in ("transformers", "tokenizers")}, "families": families}
    out.write_text(one_line_a_list(json.dumps(golden, ensure_ascii=False, indent=1)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
