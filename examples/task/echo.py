"""A task of your own, `Say red . Say blue . Say` → ` red`: mechexp --config-dir examples task=echo."""

from dataclasses import dataclass

from mechexp.config import TaskConfig
from mechexp.tasks import TASKS, Task, TextPrompt, Texts

WORDS = ["red", "blue", "green", "black", "white", "cold", "warm", "old", "new", "fast", "slow", "big"]


@dataclass
class EchoConfig(TaskConfig):
    name: str = "echo"
    n: int = 60
    verb: str = "Say"  # task.verb=Call: an option of this task alone


def make_texts(cfg: EchoConfig, vocabulary, rng) -> Texts:
    pairs = rng.permutation([(a, b) for a in WORDS for b in WORDS if a != b]).tolist()
    wanted = pairs if cfg.n == -1 else pairs[: cfg.n]
    return Texts(tuple(one_prompt(cfg.verb, *pair) for pair in wanted))


def one_prompt(verb: str, first: str, second: str) -> TextPrompt:
    prompt, at = f"{verb} {first} . {verb} {second} . {verb}", len(verb) + 1
    spans = {"first": (at, at + len(first))}  # a named position, in characters
    return TextPrompt(prompt, target=(f" {first}",), distractor=(f" {second}",), spans=spans)


TASKS.register("echo")(Task("echo", EchoConfig, make_texts, screens=("to_first",), spans=("first",)))
