"""A cell that is finished is not measured again, and still belongs to the new sweep."""

import json
from typing import Any

import pytest
from here import Here, table
from mlflow_fixtures import level

from mechexp.tracking import TrackingConfig, open_store
from mechexp.tracking.store import search_all


def results(here: Here, sweep: int) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in sorted(here.sweeps()[sweep].glob("*/result.json"))]


def test_the_same_command_measures_only_what_is_missing(
    here: Here, capfd: pytest.CaptureFixture[str]
) -> None:
    assert here("-m", *here.base, "task=ioi,vb") == 0 and here.measured == 2
    capfd.readouterr()
    assert here.sweep("plan=true") == 0 and here.measured == 0 and len(here.sweeps()) == 1
    told = capfd.readouterr().out
    assert "1 to run, 2 to skip" in told and "no result yet" in told
    assert here.sweep() == 0 and here.measured == 1
    told = capfd.readouterr().out
    assert told.count("Known already") == 2
    first, second = results(here, 0), results(here, 1)
    assert [bool(r.get("reused")) for r in second] == [True, False, True]
    assert second[0]["reused"]["folder"] == str(here.sweeps()[0] / "0")
    for old, new in ((first[0], second[0]), (first[1], second[2])):
        assert new["screens"] == old["screens"] and new["clean"] == old["clean"]
        assert new["sweep_id"] != old["sweep_id"] and new["swept"] == {"task": new["task"]["name"]}
    files = {p.relative_to(here.sweeps()[1] / "0") for p in (here.sweeps()[1] / "0").rglob("*")}
    assert {p.relative_to(here.sweeps()[0] / "0") for p in (here.sweeps()[0] / "0").rglob("*")} <= files

    assert here.sweep("resume=False") == 0 and here.measured == 3
    assert table(here.sweeps()[1]) == table(here.sweeps()[2])
    with open_store(TrackingConfig(root=str(here.cwd / "mlruns"))) as store:
        runs = list(search_all(store, ""))
    assert [len(level(runs, x)) for x in ("sweep", "cell", "screen")] == [3, 8, 8]
    assert {r.info.status for r in runs} == {"FINISHED"}


def test_a_changed_question_is_measured_a_changed_place_is_not(here: Here) -> None:
    assert here(*here.base, "tracking=off") == 0 and here.measured == 1
    assert here(*here.base, "tracking=off", "engine.memory_gb=1", "debug=true") == 0 and here.measured == 0
    assert here(*here.base, "tracking=off", "seed=1") == 0 and here.measured == 1
    assert here(*here.base, "tracking=off", "protocol.level=0.9") == 0 and here.measured == 1
