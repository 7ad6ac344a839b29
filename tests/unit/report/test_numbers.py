import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.report import numbers


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (numbers.signed(-3.104), "−3.10"),
        (numbers.signed(0.9), "+0.90"),
        (numbers.signed(-0.001), "0.00"),
        (numbers.signed(None), "–"),
        (numbers.signed(math.nan), "–"),
        (numbers.points(-0.62), "−62.0"),
        (numbers.percent(0.972), "97.2 %"),
        (numbers.p_value(0.01), ".010"),
        (numbers.p_value(0.0001), "<.001"),
        (numbers.p_value(1.0), "1"),
        (numbers.ratio(29.81), "29.8"),
        (numbers.ratio(2980.0), "2,980"),
        (numbers.plain_number(-1.5, 1), "−1.5"),
    ],
)
def test_numbers_look_as_they_should(shown: str, text: str) -> None:
    assert shown == text


@given(st.floats(allow_nan=True, allow_infinity=True) | st.none())
def test_no_number_breaks_the_display(value: float | None) -> None:
    for show in (
        numbers.signed,
        numbers.points,
        numbers.plain_number,
        numbers.percent,
        numbers.p_value,
        numbers.ratio,
    ):
        text = show(value)
        assert text and "nan" not in text and "inf" not in text


def test_p_is_that_of_the_side_to_which_the_effect_points() -> None:
    metrics = {"p_harm_top1": 0.9, "p_help_top1": 0.1, "delta_top1": 0.5}
    assert numbers.harm_or_help(metrics, "top1") == 0.1
    assert numbers.harm_or_help({**metrics, "delta_top1": -0.5}, "top1") == 0.9


def test_intervals_and_nulls_need_their_numbers() -> None:
    assert (
        numbers.interval({"delta_top1_low": -0.7, "delta_top1_high": -0.5}, "top1", 100, 1)
        == "[−70.0, −50.0]"
    )
    assert numbers.interval({"delta_top1_low": -0.7}, "top1") == ""
    assert numbers.null_text({"null_top1_mean": -0.1, "null_top1_std": 0.25}, "top1") == "−0.10 ± 0.25"
    assert numbers.null_text({"null_top1_mean": -0.1}, "top1") == "−0.10"
    assert numbers.null_text({}, "top1") == "–"
