"""The heads of accounts lie in a folder of each test."""

import pytest


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"
