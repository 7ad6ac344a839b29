"""Which ablation kinds a set of prompts can give, told before anything is measured."""

from mechexp.engine.baselines import obstacle
from mechexp.tasks.prompts import PromptSet, TextPrompt


def prompts(lengths: list[int], half: str, counterfactual: bool = False) -> PromptSet:
    n = len(lengths)
    ids = tuple(tuple(range(i, i + t)) for i, t in enumerate(lengths))
    return PromptSet(
        task="t",
        texts=tuple(TextPrompt(str(i), ("a",), ("b",)) for i in range(n)),
        ids=ids,
        positions=tuple({"end": t - 1} for t in lengths),
        targets=((1,),) * n,
        distractors=((2,),) * n,
        counterfactual_ids=tuple(tuple(reversed(i)) if counterfactual else None for i in ids),
        half=(half,) * n,
    )


def test_a_mean_needs_eight_prompts_of_each_length() -> None:
    test = prompts([9, 9, 11], "test")
    assert obstacle("mean", test, prompts([9] * 8 + [11] * 8, "screen")) == ""
    assert "7 reference prompts of 11 tokens" in obstacle("mean", test, prompts([9] * 8 + [11] * 7, "screen"))
    assert "0 reference prompts of 11 tokens" in obstacle("mean", test, prompts([9] * 8, "screen"))


def test_resampling_needs_a_donor() -> None:
    reference = prompts([9] * 8, "screen")
    assert "no other prompt of 11 tokens" in obstacle("resample", prompts([9, 9, 11], "test"), reference)
    assert obstacle("resample", prompts([9, 9, 11], "test", counterfactual=True), reference) == ""


def test_zero_and_the_overall_mean_always_work() -> None:
    for kind in ("zero", "mean_all"):
        assert obstacle(kind, prompts([9, 11], "test"), prompts([9], "screen")) == ""
