import io
from typing import Any

import pytest
from factories import HELPS, NONE, STRONG, WEAK, cell_parts
from rich.console import Console

from mechexp.report.table import print_results

FOUR = {"prev_token": STRONG, "induction": NONE, "name_mover": WEAK, "bos": HELPS}


def printed(*results: dict[str, Any], width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_results(results, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_table_fits_its_width_and_cuts_no_number(width: int) -> None:
    result = cell_parts("a_model_with_a_long_name", "ioi", FOUR, sets=99)["result"]
    text = printed(result, width=width)
    assert max(map(len, text.splitlines())) <= width
    for number in ("−62.0", "−3.10", "−3.41", "−2.79", "+0.90"):
        assert number in text, number
    assert "…" not in text


def test_every_promised_column_is_there() -> None:
    text = printed(cell_parts("pythia", "ioi", FOUR, sets=99)["result"])
    columns = ("task", "model", "screen", "heads", "Δtop-1", "Δlogit-diff", "null mean", "± sd", "p", "ratio")
    for word in (*columns, "label", "flags", "pythia", "prev_token", "primary", "bos_confound", ".010"):
        assert word in text, word


def test_the_other_metrics_label_is_shown_where_it_differs() -> None:
    result = cell_parts("pythia", "ioi", FOUR, sets=99)["result"]
    assert result["screens"]["name_mover"]["taxonomy_top1"] != result["screens"]["name_mover"]["taxonomy"]
    text = printed(result)
    assert text.count("top-1: ") == sum(
        s["taxonomy_top1"] != s["taxonomy_logit_diff"] for s in result["screens"].values()
    )


def test_long_lists_of_heads_are_cut_visibly() -> None:
    result = cell_parts("pythia", "ioi", {"prev_token": STRONG})["result"]
    row = result["screens"]["prev_token"]
    row["heads"] = [[layer, head] for layer in range(12) for head in range(8)][:20]
    text = printed(result)
    assert "L0H0" in text and "L1H3" in text
    assert "8 more" in text


def test_a_cell_that_was_not_evaluated_says_why() -> None:
    text = printed(cell_parts("smollm2", "vb", competent=False)["result"])
    assert "not_evaluated" in text
    assert "top1 0.14 < 0.2" in text
    bare = printed(cell_parts("smollm2", "vb", {}, competent=False)["result"])
    assert "top1 0.14 < 0.2" in bare


def test_names_are_not_read_as_markup() -> None:
    result = cell_parts("[red]m[/red]", "ioi", {"prev_token": STRONG}, notes=["[bold]x[/bold]"])["result"]
    text = printed(result)
    assert "[red]m" in text
    assert "[bold]x[/bold]" in text
