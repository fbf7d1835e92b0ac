"""Which backend runs a call, and backends that other packages bring along: a toy one is really installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stencilx as sx
from stencilx.backend import Backend, choose, load

NUMBERS = np.array([1.0, 2.0, 4.0, 8.0])


def slope(u: Any) -> Any:
    return u[1] - u[-1]


def backend_of(stencil: sx.Stencil, *arrays: Any) -> str:
    """The backend that runs a call, as its explanation says."""
    return stencil.explain(*(arrays or (NUMBERS,))).backend.name


def torch_array() -> Any:
    torch = pytest.importorskip("torch", reason='pip install "stencilx[torch]" runs this, too')
    return torch.tensor([1.0, 2.0, 4.0])


# By the arrays


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: NUMBERS, "jax"),
        (lambda: NUMBERS[0], "jax"),
        (lambda: [1.0, 2.0, 4.0], "jax"),
        (lambda: (1.0, 2.0, 4.0), "jax"),
        (lambda: jnp.asarray(NUMBERS), "jax"),
        (lambda: array_api_strict.asarray([1.0, 2.0, 4.0]), "array_api"),
        (torch_array, "array_api"),
    ],
    ids=["numpy", "numpy scalar", "list", "tuple", "jax", "array_api_strict", "torch"],
)
def test_chosen_by_the_array(make: Callable[[], Any], name: str) -> None:
    assert choose(None, [make()]).name == name


def test_result_is_an_array_of_the_library_of_the_field() -> None:
    F = sx.kmap(slope)
    assert isinstance(F(NUMBERS), jax.Array)
    assert isinstance(F([1.0, 2.0, 4.0]), jax.Array)
    strict = F(array_api_strict.asarray([1.0, 2.0, 4.0]))
    assert isinstance(strict, array_api_strict.asarray(0).__class__)
    assert float(strict[0]) == 3.0


def test_torch_result() -> None:
    result = sx.kmap(slope)(torch_array())
    assert (type(result).__name__, result.tolist()) == ("Tensor", [3.0])


def test_jax_tracers_go_to_jax() -> None:
    F = sx.kmap(slope)
    np.testing.assert_array_equal(jax.jit(F)(NUMBERS), [3.0, 6.0])


def test_numpy_beside_another_library_goes_there() -> None:
    strict = array_api_strict.asarray([1.0])
    assert choose(None, [NUMBERS, jnp.asarray(NUMBERS)]).name == "jax"
    assert choose(None, [NUMBERS, strict]).name == "array_api"


def test_mixed_libraries() -> None:
    F = sx.kmap(lambda u, h: u[0] + h[0], fields=2)
    with pytest.raises(sx.BackendError) as caught:
        F(jnp.asarray(NUMBERS), array_api_strict.asarray([1.0]))
    assert str(caught.value) == (
        "the fields come from different array libraries: array_api_strict, jax.\n"
        "Hint: convert them to one, or name a backend: stencil.with_backend('numpy')."
    )


def test_only_fields_count() -> None:
    F = sx.kmap(lambda u, h: u[0] + 1)
    assert backend_of(F, array_api_strict.asarray([1.0]), jnp.asarray(NUMBERS)) == "array_api"


# By name


def test_decorator_keyword() -> None:
    F = sx.kmap(slope, backend="numpy")
    assert type(F(NUMBERS)) is np.ndarray
    assert backend_of(F) == "numpy"
    assert repr(F) == "<kmap slope(), backend='numpy'>"


def test_with_backend_is_another_stencil() -> None:
    F = sx.kmap(slope)
    G = F.with_backend("numpy")
    assert (backend_of(F), backend_of(G)) == ("jax", "numpy")
    assert G.__name__ == "slope"


def test_with_backend_keeps_the_regions() -> None:
    F = sx.kmap(kernel_size=3, padding="same", relative=True)
    F[...], F[0] = slope, -1.0
    G = F.with_backend("numpy")
    G[-1] = 7.0
    np.testing.assert_array_equal(G(NUMBERS), [-1, 3, 6, 7])
    np.testing.assert_array_equal(F(NUMBERS), [-1, 3, 6, -4])


def test_use_backend_for_a_block() -> None:
    F = sx.kmap(slope)
    with sx.use_backend("numpy"):
        assert backend_of(F) == "numpy"
        with sx.use_backend("array_api"):
            assert backend_of(F) == "array_api"
        assert backend_of(F) == "numpy"
    assert backend_of(F) == "jax"


def test_use_backend_ends_with_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), sx.use_backend("numpy"):
        raise ZeroDivisionError
    assert backend_of(sx.kmap(slope)) == "jax"


def test_use_backend_refuses_at_once() -> None:
    entered = False
    with pytest.raises(sx.BackendError), sx.use_backend("nump"):
        entered = True
    assert not entered


def test_use_backend_as_a_decorator() -> None:
    F = sx.kmap(slope)
    assert sx.use_backend("numpy")(lambda: backend_of(F))() == "numpy"
    assert backend_of(F) == "jax"


def test_blocks_of_threads_are_their_own() -> None:
    F = sx.kmap(slope)
    found: dict[str, list[str]] = {}
    both_inside = threading.Barrier(2, timeout=30)

    def work(name: str) -> None:
        found[name] = [backend_of(F)]
        with sx.use_backend(name):
            both_inside.wait()
            found[name].append(backend_of(F))
            both_inside.wait()
        found[name].append(backend_of(F))

    with sx.use_backend("numpy"):
        threads = [threading.Thread(target=work, args=(name,)) for name in ("numpy", "array_api")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert backend_of(F) == "numpy"
    assert found == {"numpy": ["jax", "numpy", "jax"], "array_api": ["jax", "array_api", "jax"]}


def test_variable_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    F = sx.kmap(slope)
    monkeypatch.setenv("STENCILX_BACKEND", "numpy")
    assert backend_of(F) == "numpy"
    monkeypatch.setenv("STENCILX_BACKEND", "")
    assert backend_of(F) == "jax"
    monkeypatch.setenv("STENCILX_BACKEND", "nump")
    with pytest.raises(sx.BackendError, match="there is no backend 'nump' installed"):
        F(NUMBERS)


def test_the_nearest_choice_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stencil's own, then the block's, then the process's, then the arrays'."""
    F = sx.kmap(slope)
    monkeypatch.setenv("STENCILX_BACKEND", "array_api")
    assert backend_of(F) == "array_api"
    with sx.use_backend("numpy"):
        assert backend_of(F) == "numpy"
        assert backend_of(F.with_backend("jax")) == "jax"
        assert backend_of(sx.kmap(slope, backend="array_api")) == "array_api"


def test_a_named_backend_takes_what_it_would_not_have_chosen() -> None:
    F = sx.kmap(slope, backend="numpy")
    assert type(F(jnp.asarray(NUMBERS))) is np.ndarray
    assert type(F([1.0, 2.0, 4.0])) is np.ndarray


# What is installed


def test_backends_that_come_along() -> None:
    assert {"array_api", "jax", "numpy"} <= set(sx.backends())
    assert sx.backends() == sorted(sx.backends())


@pytest.mark.parametrize("name", ["array_api", "jax", "numpy"])
def test_each_is_a_backend(name: str) -> None:
    backend = load(name)
    assert isinstance(backend, Backend)
    assert backend.name == name
    assert load(name) is backend


# Plug-ins, in processes of their own

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "stencilx-toy"
version = "0.0.1"
[project.entry-points."stencilx.backends"]
toy = "stencilx_toy:BACKEND"
broken = "stencilx_toy.broken:BACKEND"
nameless = "stencilx_toy:THING"
missing = "stencilx_toy:NOTHING"
"""

TOY = '''
"""A backend of somebody else's: plain windows of one field, by loops, and a count of the kernel's calls."""

import numpy as np
from types import SimpleNamespace
from stencilx.backend import step_by_step
from stencilx.boundary import Constant


class Toy:
    name, calls = "toy", 0

    def as_field(self, value, like=None):
        return np.asarray(value)

    def signature(self, arguments):
        return tuple((array.shape, str(array.dtype)) for array in arguments.arrays)

    def joined(self, array, joins):
        return np.result_type(array, *joins)

    def where(self, condition, tree, other):
        return tree if condition else other

    def trace(self, kernel, windows, arguments):
        return SimpleNamespace(kernel=kernel, reads=tuple(s.window for s in windows), operations=None, reusable=True)

    def output(self, plan, formulas, arguments):
        return None

    def loop(self, step, donate):
        return step_by_step(step)

    def runner(self, plan, formulas):
        (field,) = plan.fields

        def cell(array, owner, place):
            value = plan.values[owner]
            if value.kernel is None:
                return value.constant
            self.calls += 1
            taps = [self.read(field, array, place, offset) for offset in field.window]
            return formulas[value.kernel].kernel(np.reshape(taps, field.window.size))

        def run(arguments, out):
            result = np.zeros(plan.grid)
            for part in plan.parts:
                for place in np.ndindex(*(len(r) for r in part.cells)):
                    place = tuple(r[i] for r, i in zip(part.cells, place))
                    result[place] = cell(arguments.arrays[0], part.owner, place)
            return result

        return run

    def read(self, field, array, place, offset):
        index = []
        for axis, (cell, tap) in enumerate(zip(place, offset)):
            position, length = field.geometry.position(axis, cell, tap), array.shape[axis]
            rule = field.rules[axis][position >= 0]
            if not 0 <= position < length and isinstance(rule, Constant):
                return rule.value
            index.append(position if 0 <= position < length else rule.index(position, length))
        return array[tuple(index)]


BACKEND = Toy()


class Thing:
    name = "nameless"

    def trace(self): ...


THING = Thing()
'''

BROKEN = "import a_library_that_nobody_has\n\nBACKEND = None\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the toy."""
    source, target = tmp_path_factory.mktemp("toy"), tmp_path_factory.mktemp("site")
    (source / "stencilx_toy").mkdir()
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "stencilx_toy" / "__init__.py").write_text(TOY)
    (source / "stencilx_toy" / "broken.py").write_text(BROKEN)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "--target", target, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def run(script: str, site: Path | None = None, **variables: str) -> Any:
    """What a script prints, as JSON, in a process that finds the packages in `site`."""
    clean = {name: value for name, value in os.environ.items() if name != "STENCILX_BACKEND"}
    paths = [str(site)] if site else []
    clean |= {"PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)} | variables
    script = f"import json, numpy as np, stencilx as sx\n{textwrap.dedent(script)}"
    done = subprocess.run([sys.executable, "-c", script], env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_plug_in_is_found(site: Path) -> None:
    names = run("print(json.dumps(sx.backends()))", site)
    assert names == sorted([*sx.backends(), "broken", "missing", "nameless", "toy"])


def test_a_plug_in_runs_stencils(site: Path) -> None:
    told = run(
        """
        F = sx.kmap(kernel_size=(1, 3), padding="same", boundary={1: ("edge", -1.0)}, backend="toy")
        F[...] = lambda x: x[0, 2] - x[0, 0]
        F[0, 1:] = 9.0
        result = F([[1, 2, 4], [8, 16, 32]])
        kind = str(F.explain(np.ones((2, 3)))).splitlines()[0]
        import stencilx_toy
        print(json.dumps([result.tolist(), stencilx_toy.BACKEND.calls, kind]))
        """,
        site,
    )
    assert told == [[[1, 9, 9], [8, 24, -17]], 4, "mesh of 2 regions: kmap on backend 'toy'"]


def test_a_plug_in_for_a_process(site: Path) -> None:
    script = "print(json.dumps([sx.kmap(np.sum, kernel_size=2)(np.arange(4.0)).tolist(), *stencilx_toy.__all__]))"
    script = "import stencilx_toy; stencilx_toy.__all__ = []\n" + script
    assert run(script, site, STENCILX_BACKEND="toy") == [[1, 3, 5]]


def test_a_process_on_numpy() -> None:
    script = """
        import sys
        result = sx.kmap(np.sum, kernel_size=2)(np.arange(4.0))
        print(json.dumps([type(result).__name__, result.tolist(), "jax" in sys.modules]))
        """
    assert run(script, STENCILX_BACKEND="numpy") == ["ndarray", [1, 3, 5], False]


TELL = """
    def tell(name):
        try:
            sx.kmap(np.sum, kernel_size=2, backend=name)
        except Exception as error:
            kinds = [c.__name__ for c in type(error).__mro__ if c.__name__.endswith("Error")]
            return [kinds[0], "ImportError" in kinds, type(error.__cause__).__name__, str(error)]
    """


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "broken",
            [
                "BackendImportError",
                True,
                "ModuleNotFoundError",
                "backend 'broken' (stencilx_toy.broken:BACKEND) is installed but fails to import: "
                "ModuleNotFoundError: No module named 'a_library_that_nobody_has'",
            ],
        ),
        (
            "missing",
            [
                "BackendImportError",
                True,
                "AttributeError",
                "backend 'missing' (stencilx_toy:NOTHING) is installed but fails to import: "
                "AttributeError: module 'stencilx_toy' has no attribute 'NOTHING'",
            ],
        ),
        (
            "nameless",
            [
                "BackendError",
                False,
                "NoneType",
                "backend 'nameless' (stencilx_toy:THING) is no backend: "
                "it lacks as_field, signature, joined, where, output, runner, loop.",
            ],
        ),
        (
            "toys",
            ["BackendError", False, "NoneType", "there is no backend 'toys' installed.\nHint: did you mean 'toy'?"],
        ),
    ],
)
def test_a_plug_in_that_fails(name: str, told: list[Any], site: Path) -> None:
    assert run(f"{textwrap.dedent(TELL)}\nprint(json.dumps(tell({name!r})))", site) == told


def test_a_broken_plug_in_hurts_nobody_else(site: Path) -> None:
    script = "print(json.dumps(np.asarray(sx.kmap(lambda u: u[1] - u[0])(np.arange(4.0))).tolist()))"
    assert run(script, site) == [1, 1, 1]


def test_what_lacks_nothing_but_a_name_is_no_backend() -> None:
    needed = "as_field signature joined where trace output runner loop"
    methods = {name: lambda *_: None for name in needed.split()}
    assert not isinstance(SimpleNamespace(**methods), Backend)
    assert isinstance(SimpleNamespace(name="x", **methods), Backend)
