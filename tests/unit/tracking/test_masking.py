import pytest

from mechexp.tracking.masking import mask, mask_tree

SECRET = "s3cr3t-Value"


@pytest.mark.parametrize(
    "text",
    [
        f"http://bob:{SECRET}@host:5000/api",
        f"postgresql+psycopg2://bob:{SECRET}@db/mlflow",
        f"https://{SECRET}@host",
        f"password={SECRET}",
        f"MLFLOW_TRACKING_PASSWORD={SECRET}",
        f"'api_key': '{SECRET}'",
        f'"client_secret": "{SECRET}"',
        f"hf_token: {SECRET}",
        f"Authorization: Bearer {SECRET}0123",
        f"Failed to reach http://bob:{SECRET}@host and http://eve:{SECRET}@other",
        f"http://bob:p@{SECRET}@host",
    ],
)
def test_credentials_do_not_survive(text: str) -> None:
    masked = mask(text)
    assert SECRET not in masked
    assert "***" in masked


def test_hub_and_git_tokens_do_not_survive_anywhere() -> None:
    text = f"using hf_{'a' * 34} and ghp_{'b' * 36}"
    assert mask(text) == "using *** and ***"


@pytest.mark.parametrize(
    "text",
    [
        "screen=prev_token screen.k=5",
        "taxonomy_top1: prev_token",
        "duplicate_token: 3.2",
        "n_tokens=512, tokens: 7, target_token: Mary, last token is read",
        "see https://example.org/a@b and mail me@example.org",
        "When Mary and John went to the store, John gave a drink to",
    ],
)
def test_words_of_the_field_are_left_alone(text: str) -> None:
    assert mask(text) == text


def test_trees_are_masked_by_key_and_by_content() -> None:
    tree = {
        "tracking": {"uri": f"http://bob:{SECRET}@h", "password": SECRET},
        "screens": {"prev_token": "kept", "heads": [[1, 2]]},
        "command": ["task=ioi", f"tracking.uri=http://bob:{SECRET}@h"],
        "tokens": "kept",
        "contract": {"target_tokens": [" Mary"], "bos_token": "<s>"},
        "token": "",
    }
    masked = mask_tree(tree)
    assert SECRET not in str(masked)
    assert masked["screens"] == {"prev_token": "kept", "heads": [[1, 2]]}
    assert masked["tokens"] == "kept"
    assert masked["contract"] == {"target_tokens": [" Mary"], "bos_token": "<s>"}
