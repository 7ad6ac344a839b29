"""The words of a verdict: every label and every flag, each with the sentence that reports show."""

LABELS: dict[str, str] = {
    "primary": "Primary cause: removing these heads harms the task beyond matched-random heads, and more "
    "than any other screen of the cell does.",
    "secondary": "Secondary cause: removing these heads harms the task beyond matched-random heads, but "
    "another screen has, or may have, the larger effect.",
    "correlate": "Correlate: the heads show the attention pattern, yet removing them changes little or "
    "nothing.",
    "interferer": "Interferer: removing the heads helps the task beyond matched-random heads, and most of "
    "them help when removed alone.",
    "null": "Null: the effect is like that of matched-random heads.",
    "indeterminate": "Indeterminate: the evidence fits none of the five classes; the rules say what is "
    "missing.",
    "not_evaluated": "Not evaluated: the model cannot do the task, so there is nothing to explain.",
    "empty": "Empty: the screen picked no head in this model.",
}

CAUSES = ("primary", "secondary")

FLAGS: dict[str, str] = {
    "weak": "The cause is small: under 10 percentage points of top-1, or 20 % of the clean logit difference.",
    "saturated": "The circuit and the median matched set both leave next to nothing of the clean metric: no "
    "difference between them could show.",
    "null_destructive": "The matched-random heads do heavy or very uneven damage themselves, so a comparison "
    "with them says little.",
    "underpowered": "Not one matched set is as extreme as the circuit, but there are too few sets to pass "
    "the test.",
    "no_null": "No matched set was measured, so the effect has nothing to be compared with.",
    "no_singles": "Removing the group helps, but its heads were not removed one by one, so it cannot be "
    "called an interferer.",
    "paper_null": "The null is the paper's ten sets, which cannot reach p < .05: the smallest p is 1/11.",
    "short_null": "A layer has too few spare heads: the matched sets hold fewer heads than the circuit.",
    "bos_confound": "Half or more of the interfering heads attend to the first position: removing sinks may "
    "help for reasons that have nothing to do with the task.",
    "repaired": "The heads write a lot towards the answer directly, yet removing them changes little: later "
    "layers make up for the loss.",
    "primary_open": "A screen of this cell with a larger effect is undecided for want of matched sets, so no "
    "primary can be named.",
    "same_heads": "Another screen of this cell picked the same heads: the two are one finding.",
    "folded": "Indeterminate by the rules; folded into the nearest of the paper's five classes.",
    "margin_only": "Margin, not argmax: the logit difference moves while top-1 stays.",
    "metric_conflict": "Top-1 and the logit difference move in opposite directions.",
    "ablation_sensitive": "Another kind of ablation gives an effect of another class.",
}

SHARED_FLAGS = ("no_null", "paper_null", "short_null", "same_heads")  # do not depend on the metric


def explain_flag(flag: str) -> str:
    """The sentence of a flag; one of the metric that is not the headline carries the suffix ``_top1``.

    Raises:
        KeyError: No such flag.
    """
    if flag in FLAGS:
        return FLAGS[flag]
    return f"{FLAGS[flag.removesuffix('_top1')]} (for top-1)"
