"""What is written runs: examples in docstrings, the Python blocks of the README and of docs/, in order; and pictures.

All of it runs as a user would run it, in processes of their own: here, `conftest.py` has set JAX to double precision.
"""

from __future__ import annotations

import json
import os
import pkgutil
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import stencilx

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = ["stencilx", *(f"stencilx.{m.name}" for m in pkgutil.iter_modules(stencilx.__path__) if m.name[0] != "_")]
WITH_EXAMPLES = {
    "stencilx.backend": 2,
    "stencilx.boundary": 7,
    "stencilx.decorators": 4,
    "stencilx.kernex": 4,
    "stencilx.stencil": 2,
}


def run_python(script: str, argument: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A script in a folder of its own, without a screen and without our settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("STENCILX", "JAX_ENABLE"))}
    command = [sys.executable, "-c", script, argument]
    return subprocess.run(
        command, cwd=folder, env=clean | {"MPLBACKEND": "Agg"}, capture_output=True, text=True, timeout=600, check=False
    )


# Docstrings

RUN_DOCTESTS = """
import doctest, importlib, io, json, sys
told = {}
for name in json.loads(sys.argv[1]):
    module, text = importlib.import_module(name), io.StringIO()
    runner = doctest.DocTestRunner(verbose=False)
    tests = [test for test in doctest.DocTestFinder(exclude_empty=True).find(module) if test.examples]
    for test in tests:
        runner.run(test, out=text.write)
    told[name] = [len(tests), text.getvalue()]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """For each module, how many docstrings have examples, and what doctest has to say about them."""
    done = run_python(RUN_DOCTESTS, json.dumps(MODULES), tmp_path_factory.mktemp("doctest"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples(module: str, told: dict[str, Any]) -> None:
    assert told[module][1] == ""


def test_docstrings_have_examples(told: dict[str, Any]) -> None:
    """Doctest found them: a silent finder would let everything pass."""
    assert {name: count for name, (count, _) in told.items() if count < WITH_EXAMPLES.get(name, 0)} == {}


# Pages

FENCE = re.compile(r"(?P<indent> *)```(?P<word>[^`\n]*)\n(?P<code>.*?)\n(?P=indent)```[ \t]*(?:\n|\Z)", re.DOTALL)
PYTHON = re.compile(r"(python|py|\{code-cell\}( \w+)?)\b.*|\{code-cell\}.*")


@dataclass(frozen=True)
class Block:
    """Code between fences, with the number of its first line in the page."""

    line: int
    code: str


def python_blocks(text: str) -> list[Block]:
    """The blocks that are marked as Python, those in lists without their margin."""
    blocks = []
    for fence in FENCE.finditer(text):
        if PYTHON.fullmatch(fence["word"].strip()):
            margin = re.compile(f"^{fence['indent']}", re.MULTILINE)
            blocks.append(Block(text[: fence.start("code")].count("\n") + 1, margin.sub("", fence["code"])))
    return blocks


RUN_BLOCKS = """
import doctest, json, linecache, sys, traceback
page, blocks = json.loads(sys.argv[1])
lines = [""] * (blocks[-1][0] + blocks[-1][1].count("\\n")) if blocks else []
for line, code in blocks:
    lines[line - 1 : line + code.count("\\n")] = code.split("\\n")
linecache.cache[page] = (1, None, [text + "\\n" for text in lines], page)  # for tracebacks, and for inspect
space = {"__name__": "__main__"}

def run(line, code):
    if not code.lstrip().startswith(">>>"):
        exec(compile("\\n" * (line - 1) + code, page, "exec"), space)
        return
    examples = doctest.DocTestParser().get_examples(code)
    told = []
    test = doctest.DocTest(examples, space, page, page, line - 1, code)
    test.globs = space  # not a copy: the next block goes on with these names
    if doctest.DocTestRunner(verbose=False).run(test, out=told.append, clear_globs=False).failed:
        raise AssertionError("".join(told))

for line, code in blocks:
    try:
        run(line, code)
    except BaseException:
        print(f"the block at line {line} of {page} fails:", file=sys.stderr)
        traceback.print_exc()
        sys.exit(1)
"""


def run_blocks(name: str, blocks: list[Block], folder: Path) -> subprocess.CompletedProcess[str]:
    return run_python(RUN_BLOCKS, json.dumps([name, [[block.line, block.code] for block in blocks]]), folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks(page: Path, tmp_path: Path) -> None:
    done = run_blocks(page.name, python_blocks(page.read_text()), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_have_python_blocks_and_no_dead_links(page: Path) -> None:
    text = page.read_text()
    assert python_blocks(text)
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)):
        assert link in anchors or link.startswith("https://") or (page.parent / link).exists(), link


# Pictures

DRAWING = ROOT / "docs" / "draw_boundaries.py"
PICTURES = ROOT / "docs" / "pictures"


def described(folder: Path) -> dict[str, tuple[list[str], list[float]]]:
    """For each picture, the words and the numbers of its description."""
    tag = "{http://purl.org/dc/elements/1.1/}description"
    found = {}
    for path in sorted(folder.iterdir()):
        text = next(ElementTree.parse(path).iter(tag)).text or ""
        number = re.compile(r"-?\d+\.\d{3}\b")
        found[path.name] = number.sub("", text).split(), [float(value) for value in number.findall(text)]
    return found


def test_pictures_show_what_the_library_does(tmp_path: Path) -> None:
    """The script runs, and the pictures in the folder are those that it draws: by their numbers, not their bytes."""
    script = f"import runpy; runpy.run_path({str(DRAWING)!r}, run_name='__main__')"
    done = run_python(script, str(tmp_path / "pictures"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    drawn, kept = described(tmp_path / "pictures"), described(PICTURES)
    assert list(kept) == list(drawn)
    for name, (words, numbers) in drawn.items():
        assert kept[name] == (words, pytest.approx(numbers, abs=2e-3)), "run python docs/draw_boundaries.py"


def test_every_rule_has_a_picture_on_its_page() -> None:
    names = {f"{name.lower()}.svg" for name in stencilx.boundary.__all__ if name != "Rule"}
    assert {path.name for path in PICTURES.iterdir()} == names
    assert set(re.findall(r"\(pictures/(.*?)\)", (ROOT / "docs" / "boundaries.md").read_text())) == names


def test_pictures_are_small() -> None:
    assert {path.name: path.stat().st_size for path in PICTURES.iterdir() if path.stat().st_size > 25_000} == {}


# The test of the tests

PAGE = """
# A page

```python
import numpy as np
width = 3
```

```text
no code
```

1. In a list

   ```python
   def area(height):
       return width * height

   assert area(2) == 6
   ```

```
$ no code either
```

```python title="x.py"
area("no number") / 2
```
"""


def test_blocks_are_found() -> None:
    blocks = python_blocks(PAGE)
    assert [block.line for block in blocks] == [5, 16, 27]
    assert blocks[1].code == "def area(height):\n    return width * height\n\nassert area(2) == 6"


def test_a_failing_block_is_named(tmp_path: Path) -> None:
    done = run_blocks("PAGE.md", python_blocks(PAGE), tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("the block at line 27 of PAGE.md fails:\n")
    assert 'File "PAGE.md", line 27, in <module>\n    area("no number") / 2\n' in done.stderr
    assert "TypeError" in done.stderr


def test_sessions_are_compared_with_what_they_show(tmp_path: Path) -> None:
    """Blocks that are written as at the prompt, between others."""
    blocks = [Block(1, "x = 3"), Block(4, ">>> y = x + 1\n>>> y\n4\n"), Block(9, "assert y == 4")]
    assert run_blocks("PAGE.md", blocks, tmp_path).returncode == 0
    done = run_blocks("PAGE.md", [*blocks, Block(20, ">>> y\n4\n>>> y + 1\n6\n")], tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("the block at line 20 of PAGE.md fails:\n")
    assert 'File "PAGE.md", line 22, in PAGE.md\nFailed example:\n    y + 1\n' in done.stderr


def test_blocks_share_their_names_and_run_in_a_folder_of_their_own(tmp_path: Path) -> None:
    blocks = [Block(1, "x = 3"), Block(9, "open('x.txt', 'w').write(str(x))")]
    done = run_blocks("PAGE.md", blocks, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "x.txt").read_text() == "3"
