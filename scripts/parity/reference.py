"""The reference: transformers in f32 on the CPU, with the same model file as the engine."""

import hashlib
from pathlib import Path

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer


class Reference:
    """A model and its tokenizer, from a GGUF file or a Hugging Face folder."""

    def __init__(self, path: Path):
        if path.is_dir():
            self.tokenizer = AutoTokenizer.from_pretrained(path)
            self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        else:
            folder, options = path.parent, {"gguf_file": path.name}
            self.tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
            # The file names its pre-tokenizer, "smollm": it separates every digit, and then splits as GPT-2's does.
            # transformers ignores the name and uses GPT-2's alone, which joins spaces differently: "in  12" then has two
            # tokens of one space instead of one of two. The model was trained with separated digits.
            self.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
            ])
        self.model.eval()

    def encode(self, text: str) -> list[int]:
        """Token ids. Special tokens that are written in the text count as such, and none is added."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def chat(self, messages: list[dict]) -> str:
        """The model's own chat template, ready for an answer."""
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    @torch.no_grad()
    def logits(self, tokens: list[int]) -> torch.Tensor:
        """Logits of the token after each position: (positions, vocabulary)."""
        return self.model(torch.tensor([tokens]), use_cache=False).logits[0].float()

    def greedy(self, prompt: list[int], count: int) -> dict:
        """The next `count` greedy tokens, also after an end token. Each has its log-probability at temperature 1 and the gap
        between the two best logits at its position: with a gap near 0, either token is correct."""
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(int(self.logits(tokens)[-1].argmax()))
        return {"tokens": tokens[len(prompt):], **self.measure(prompt, tokens[len(prompt):])}

    def measure(self, prompt: list[int], completion: list[int]) -> dict:
        """Log-probability of each given token, and the gap of the two best logits at its position."""
        positions = self.logits(prompt + completion)[len(prompt) - 1:-1]
        logp = torch.log_softmax(positions.double(), dim=-1)
        best = positions.topk(2, dim=-1).values
        return {
            "logp": [round(float(logp[i, t]), 6) for i, t in enumerate(completion)],
            "gap": [round(float(b[0] - b[1]), 6) for b in best],
        }


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
