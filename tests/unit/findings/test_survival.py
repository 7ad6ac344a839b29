"""Which labels survive, and what they depend on."""

import pandas as pd

from mechexp.findings.survival import surviving_labels

VARIED = ["ablation", "task.seed"]


def frame(labels: dict[tuple[str, str], str], heads: dict[str, str] | None = None) -> pd.DataFrame:
    rows = [
        {"model": "m", "task": "t", "screen": "s", "ablation": a, "task.seed": seed, "taxonomy": label,
         "heads": (heads or {}).get(seed, "L0H1")}
        for (a, seed), label in labels.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_a_label_that_survives_depends_on_nothing() -> None:
    found = surviving_labels(frame({(a, s): "primary" for a in ("mean", "zero") for s in "01"}), VARIED).iloc[
        0
    ]
    assert (found["label"], found["share"], found["settings"], found["depends_on"]) == ("primary", 1.0, 4, "")


def test_the_key_that_changes_it_is_named_and_no_other() -> None:
    labels = {(a, s): "primary" if a == "mean" else "null" for a in ("mean", "zero") for s in "012"}
    found = surviving_labels(frame(labels), VARIED).iloc[0]
    assert found["depends_on"] == "ablation" and found["share"] == 0.5
    assert found["labels"] in ("primary 3, null 3", "null 3, primary 3")


def test_both_keys_and_the_circuits() -> None:
    labels = {("mean", "0"): "primary", ("mean", "1"): "null", ("zero", "0"): "null", ("zero", "1"): "null"}
    found = surviving_labels(frame(labels, {"0": "L0H1", "1": "L0H2"}), VARIED).iloc[0]
    assert found["depends_on"] == "ablation, task.seed"
    assert found["label"] == "null" and found["share"] == 0.75 and found["n_circuits"] == 2


def test_screens_and_cells_are_apart_and_one_key_is_enough() -> None:
    one = frame({("mean", "0"): "primary", ("zero", "0"): "null"})
    rows = pd.concat(
        [one, one.assign(screen="other", taxonomy="null"), one.assign(task="u", taxonomy="null")]
    )
    found = surviving_labels(rows, ["ablation"]).set_index(["task", "screen"])["depends_on"].to_dict()
    assert found == {("t", "s"): "ablation", ("t", "other"): "", ("u", "s"): ""}
