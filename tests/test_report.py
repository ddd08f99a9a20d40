"""The report: one file, with nothing in it that stored text could become, and nothing told that the commands do not."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import hostile
from cli_run import run, store
from recorded import Recording, scenarios
from turnstate.serving import report as serving
from turnstate.serving.answers import Line, Source

BBOX = "gazet/get_aoi/bbox"


class Elements(HTMLParser):
    """What a file consists of: each element's name and attributes, and what scripts and styles hold."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.comments: list[str] = []
        self.raw: list[str] = []
        self.text = ""
        self._within = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(attrs)))
        self._within = tag in ("script", "style")
        if self._within:
            self.raw.append("")

    def handle_endtag(self, tag: str) -> None:
        self._within = False

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if self._within:
            self.raw[-1] += data
        else:
            self.text += data


def parsed(path: Path) -> tuple[Elements, Any]:
    """A report's elements and what it holds of the thread."""
    found = Elements()
    found.feed(path.read_text("utf-8"))
    found.close()
    return found, json.loads(found.raw[1])


def written(tmp_path: Path, *argv: str, name: str = "report.html") -> Path:
    path = tmp_path / name
    told = run("report", "--html", str(path), *argv)
    assert told.code == 0, told.err
    return path


def test_a_report_holds_what_the_page_asks_the_server_for(tmp_path: Path) -> None:
    _, data = parsed(written(tmp_path, "demo", "--store", store("demo")))
    assert data["about"].startswith(f"{store('demo')}, read 20")
    assert [each["key"] for each in data["chart"]["keys"]] == ["messages", "plan", BBOX]
    assert data["chart"]["keys"][2]["turns_written"] == [1, 3]
    assert data["versions"][2] == [{"text": "[12.4, 55.5, 12.7, 55.8]"}, {"text": "[9.9, 56.1, 10.3, 56.2]"}]
    assert [(cell["outcome"], cell["version"]) for cell in data["cells"][2]] == [
        ("value", 0),
        ("value", 0),
        ("value", 1),
    ]
    assert data["cells"][2][1]["notes"] == [
        "turn 2 · checkpoint 1f1ecbdf-638d-66fd-8006-70ca800e7ac8 · written in turn 1 by tool"
        " · written in 2 turns (1, 3)"
    ]
    assert data["diffs"][1] == {
        "0 1": 'plan  changed · 17 B → 31 B\n  ~ $  "look up the area{+, then compare+}"'
    }


def test_the_three_outcomes_stay_apart(tmp_path: Path) -> None:
    _, data = parsed(written(tmp_path, "demo", "--store", store("demo-pruned")))
    first, second, _ = data["cells"][1]
    assert (first["outcome"], "version" in first) == ("turn_no_longer_retained", False)
    assert first["notes"][0].startswith(
        "turn_no_longer_retained: turn 1 was pruned; turns that can be read: 2, 3;"
    )
    assert (second["outcome"], data["versions"][1][second["version"]]["text"]) == (
        "value",
        "look up the area",
    )
    assert data["chart"]["notes"][0] == "turns that are kept as they ended: 2, 3 of 3"


@pytest.mark.parametrize("recorded", scenarios(), ids=lambda recorded: recorded.name)
def test_a_cell_says_what_the_server_says_of_it(recorded: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Any] = []
    monkeypatch.setattr(serving, "_page", lambda data: held.append(data) or "")
    source = Source(str(recorded.path), messages="messages")
    with source.opened() as opened:
        monkeypatch.setattr(source, "opened", lambda: _kept(opened))
        for thread in opened.threads():
            line = Line(thread.id)
            serving.report_of(source.history(opened, line), None, about="")
            data = held.pop()
            for row, cells, versions in zip(
                data["chart"]["keys"], data["cells"], data["versions"], strict=True
            ):
                for turn, cell in zip(data["chart"]["turns"], cells, strict=True):
                    told = json.loads(source.state(line, row["key"], _when(turn), text=True).body)
                    text = versions[cell["version"]]["text"] if "version" in cell else ""
                    ours = cell["outcome"], text, cell["notes"]
                    assert ours == (told["outcome"], told["text"], told["notes"]), (
                        thread.id,
                        row["key"],
                        turn,
                    )


def _when(turn: int) -> Any:
    from turnstate.history.asked import When

    return When(turn)


def _kept(opened: Any) -> Any:
    from contextlib import nullcontext

    return nullcontext(opened)


def test_stored_text_becomes_neither_markup_nor_script(tmp_path: Path) -> None:
    path = tmp_path / "hostile.db"
    hostile.record(path)
    plain, _ = parsed(written(tmp_path, "demo", "--store", store("demo"), name="plain.html"))
    for number, thread in enumerate(hostile.THREADS):
        found, data = parsed(written(tmp_path, "--store", str(path), "--", thread, name=f"{number}.html"))
        assert found.tags == plain.tags
        assert found.comments == []
        assert found.text == plain.text
        assert found.raw[2] == plain.raw[2]
        assert data["threads"][0]["thread"] == thread
        assert {row.get("entry_name") for row in data["chart"]["keys"]} == {None, *hostile.KEYS}
        assert [turn["question"] for turn in data["turns"]["turns"]] == list(hostile.TEXTS[:2])
        assert not re.search("[<>&'\u2028\u2029\u202e]", found.raw[1])


def test_a_report_may_run_nothing_but_its_own_script_and_load_nothing(tmp_path: Path) -> None:
    found, _ = parsed(written(tmp_path, "demo", "--store", store("demo")))
    policy = next(
        dict(attrs)["content"]
        for tag, attrs in found.tags
        if ("http-equiv", "Content-Security-Policy") in attrs
    )
    style, script = (
        f"'sha256-{base64.b64encode(hashlib.sha256(found.raw[place].encode()).digest()).decode()}'"
        for place in (0, 2)
    )
    assert policy is not None
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src {script}",
        f"style-src {style}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    loaded = [value for _, attrs in found.tags for name, value in attrs if name in ("src", "href", "action")]
    assert loaded == ["data:,"]


def test_secrets_are_masked(tmp_path: Path) -> None:
    text = written(tmp_path, "values", "--store", store("values")).read_text("utf-8")
    assert "(masked)" in text
    assert not any(secret in text for secret in ("correct horse", "battery staple"))


def test_only_some_turns(tmp_path: Path) -> None:
    _, data = parsed(written(tmp_path, "plain", "--turns", "4..6", "--store", store("plain")))
    assert data["chart"]["turns"] == [4, 5, 6]
    assert {len(cells) for cells in data["cells"]} == {3}


def test_a_branch_and_the_other_ones_are_told(tmp_path: Path) -> None:
    tip = "1f1ecbd6-08fa-6534-8006-b1dd4167f9db"
    _, data = parsed(written(tmp_path, "edited-past", "--branch", tip, "--store", store("forks")))
    assert (data["turns"]["tip"], data["turns"]["head"] == tip) == (tip, False)
    assert data["chart"]["notes"][-1].startswith("1 other branch, see --branch ID: ")


def test_what_does_not_fit_is_cut_and_the_page_and_stderr_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CELLS", 3 * 12)  # keys of the thread
    monkeypatch.setattr(serving, "VALUE", 100)
    monkeypatch.setattr(serving, "DIFFS", 1)
    path = tmp_path / "cut.html"
    told = run("report", "plain", "--html", str(path), "--store", store("plain"))
    _, data = parsed(path)
    assert data["chart"]["turns"] == [8, 9, 10]
    assert told.err.splitlines() == [
        "this report leaves out 7 earlier turns: it begins with turn 8",
        "this report cuts 3 long values; show prints what is cut",
        "this report leaves out 5 differences; diff prints what is left out",
    ]
    assert data["chart"]["notes"][-3:] == told.err.splitlines()
    cut = data["versions"][0][0]
    assert len(cut["text"]) == 100
    assert re.fullmatch(r"only 100 of its \d{3,} characters are in this report", cut["left_out"])


def test_long_values_of_one_key_leave_room_for_those_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "VALUES", 3000)
    path = tmp_path / "shared.html"
    assert run("report", "plain", "--html", str(path), "--store", store("plain")).code == 0
    _, data = parsed(path)
    keys = [row["key"] for row in data["chart"]["keys"]]
    found = dict(zip(keys, data["versions"], strict=True))
    assert keys[0] == "messages"
    assert [key for key in keys if any("left_out" in each for each in found[key])] == ["messages"]
    texts = [each["text"] for versions in found.values() for each in versions]
    assert all(texts)
    assert 1000 < sum(map(len, texts)) <= 3000


def test_a_file_that_is_there_stays_unless_forced_and_the_store_always_does(tmp_path: Path) -> None:
    path = tmp_path / "there.html"
    path.write_text("mine")
    told = run("report", "demo", "--html", str(path), "--store", store("demo"))
    assert (told.code, path.read_text()) == (2, "mine")
    assert run("report", "demo", "--html", str(path), "--force", "--store", store("demo")).code == 0
    assert path.read_text().startswith("<!doctype html>")
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(store("demo")).read_bytes())
    told = run("report", "demo", "--html", str(copy), "--force", "--store", str(copy))
    assert (told.code, copy.read_bytes()) == (2, Path(store("demo")).read_bytes())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.db", "there.html"]


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        told = run("report", "demo", "--html", str(path), "--force", "--store", store("demo"))
        assert (told.code, f"{path} is a device, a pipe or a socket" in told.err) == (2, True)
    assert (stat.S_ISFIFO(pipe.lstat().st_mode), link.is_symlink()) == (True, True)


@pytest.mark.parametrize(
    ("argv", "name", "code"),
    [
        (["nobody"], "demo", 4),
        (["demo", "--turns", "8.."], "demo", 4),
        (["demo", "--turns", "1"], "demo-pruned", 5),
    ],
)
def test_of_what_is_not_there_no_file_is_made(tmp_path: Path, argv: list[str], name: str, code: int) -> None:
    told = run("report", *argv, "--html", str(tmp_path / "none.html"), "--store", store(name))
    assert (told.code, list(tmp_path.iterdir())) == (code, [])
