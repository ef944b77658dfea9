"""The demo's last scene with our own frames: it comes out, and it notices a message that is missing."""

import shutil
from pathlib import Path

import pytest

from penstock.testing import demo, frames, visitors


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> demo.Stage:
    monkeypatch.setattr(shutil, "which", lambda name: None)  # no real client on this machine
    monkeypatch.setattr(demo, "KILL_AFTER", 200)
    return demo.Stage(tmp_path)


def test_a_client_gets_everything_that_was_acknowledged_before_the_kill(stage, capsys):
    demo.a_rocketmq_client_comes_by(stage)
    said = capsys.readouterr().out
    assert "frames of our own instead" in said
    assert "that were acknowledged, each once" in said


def test_a_message_that_was_acknowledged_and_is_not_there_ends_the_demo(stage, monkeypatch):
    monkeypatch.setattr(frames.Sending, "rest", lambda sender: [100_000])  # acknowledged, so it says
    with pytest.raises(SystemExit, match="messages came"):
        demo.a_rocketmq_client_comes_by(stage)


def test_a_client_that_cannot_be_built_is_named(monkeypatch, tmp_path):
    def cannot(*_: object) -> None:
        raise visitors.NotBuilt("no network")

    told: list[str] = []
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(visitors, "RealClient", cannot)
    assert isinstance(visitors.best_visitor(tmp_path, told.append), frames.OwnFrames)
    assert told == ["the Go client could not be built: no network; frames of our own instead"]
