"""The rules of the house: who may import whom, what is public, what is in the wheel, how long a text may be."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import tomllib
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stencilx as sx

ROOT = Path(__file__).parents[1]
BACKENDS = ("stencilx_jax", "stencilx_array_api", "stencilx_numpy")

LAYERS = {
    "errors": 0,
    "capture": 0,
    "window": 1,
    "boundary": 1,
    "regions": 1,
    "results": 1,
    "walls": 2,
    "offsets": 2,
    "fields": 3,
    "dependence": 4,
    "plan": 5,
    "backend": 6,
    "explain": 7,
    "arguments": 7,
    "mask": 7,
    "stencil": 8,
    "decorators": 9,
    "kernex": 9,
    "iterate": 9,
    "__init__": 10,
    "demo": 11,
    "__main__": 12,
}
OUTSIDE_THE_CORE = ("demo", "__main__")  # a program that uses the library, as any other
NOT_FOR_BACKENDS = ("arguments", "mask", "stencil", "decorators", "iterate", "explain", "kernex")
PUBLIC = [
    "BackendError",
    "BackendImportError",
    "BoundaryError",
    "FieldError",
    "Iteration",
    "KernelError",
    "OffsetError",
    "RegionError",
    "RegionIndexError",
    "ScheduleError",
    "Stencil",
    "StencilError",
    "WindowError",
    "backends",
    "iterate",
    "kmap",
    "kscan",
    "smap",
    "sscan",
    "use_backend",
]
RULES = [
    "Constant",
    "Dirichlet",
    "Edge",
    "Extrapolate",
    "Neumann",
    "Reflect",
    "Robin",
    "Rule",
    "Symmetric",
    "Wrap",
]


def sources(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


CORE = sources(ROOT / "stencilx")
MODULES = [*CORE, *sources(ROOT / "backends")]


def name_of(path: Path) -> str:
    """`stencilx/window.py`, as the tests print it."""
    return str(path.relative_to(ROOT))


every_module = pytest.mark.parametrize("path", MODULES, ids=name_of)
core_module = pytest.mark.parametrize("path", CORE, ids=name_of)


# Imports


def imported(path: Path) -> Iterator[str]:
    """The dotted names that a module imports, wherever in it; `from a import b` gives `a.b`."""
    package = path.parent.name
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level < 2, f"{name_of(path)} climbs out of its package"
            start = ".".join(filter(None, [package if node.level else "", node.module]))
            yield from (f"{start}.{alias.name}" for alias in node.names)


def core_modules_of(path: Path) -> set[str]:
    """The modules of the core that a module imports; `import stencilx` counts as `__init__`."""
    names = [name.split(".") for name in imported(path)]
    inner = [name[1] if len(name) > 1 else "__init__" for name in names if name[0] == "stencilx"]
    return {name if name in LAYERS else "__init__" for name in inner}


def top_levels(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)}


def test_every_module_has_a_layer() -> None:
    assert sorted(LAYERS) == sorted(path.stem for path in CORE)


@core_module
def test_imports_only_lower_layers(path: Path) -> None:
    assert [name for name in core_modules_of(path) if LAYERS[name] >= LAYERS[path.stem]] == []


def test_no_layer_is_higher_than_it_must_be() -> None:
    for path in CORE:
        needed = max((LAYERS[name] + 1 for name in core_modules_of(path)), default=0)
        assert LAYERS[path.stem] == needed, f"{path.stem} could stand in layer {needed}"


@core_module
def test_core_imports_no_array_library_but_numpy(path: Path) -> None:
    foreign = top_levels(path) - set(sys.stdlib_module_names) - {"stencilx", "numpy"}
    allowed = {"jax", "matplotlib", "tqdm"} if path.stem in OUTSIDE_THE_CORE else set()
    assert foreign <= allowed


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_go_through_the_door(backend: str) -> None:
    for path in sources(ROOT / "backends" / backend):
        others = top_levels(path) & {name for name in BACKENDS if name != backend}
        assert not others, f"{name_of(path)} imports {others}"
        inner = core_modules_of(path)
        assert not inner & {*NOT_FOR_BACKENDS, *OUTSIDE_THE_CORE, "__init__"}, f"{name_of(path)} imports {inner}"
        private = [n for n in imported(path) if n.startswith("stencilx.") and "._" in n]
        assert not private, f"{name_of(path)} imports {private}"


@pytest.mark.parametrize("backend", ["stencilx_array_api", "stencilx_numpy"])
def test_only_the_jax_backend_imports_jax(backend: str) -> None:
    assert all("jax" not in top_levels(path) for path in sources(ROOT / "backends" / backend))


def jax_names(path: Path) -> set[str]:
    """The dotted names under `jax` that a module imports or writes, and their beginnings: `jax.lax.scan`, `jax.lax`."""
    written = {ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    parts = [name.split(".") for name in {*imported(path), *written} if name.startswith("jax.")]
    return {".".join(name[:count]) for name in parts for count in range(2, len(name) + 1)}


@every_module
def test_only_public_jax(path: Path) -> None:
    names = jax_names(path)
    places = {"backends/stencilx_jax/jaxprs.py": "jax.extend", "backends/stencilx_jax/fences.py": "jax.experimental"}
    allowed = {places.get(name_of(path), "")}
    assert names & {"jax._src", "jax.experimental", "jax.extend", "jax.interpreters"} <= allowed
    assert {name for name in names if name.startswith("jax.core.")} <= {"jax.core.Tracer"}


def test_jaxprs_are_handled_in_one_module() -> None:
    assert "jax.extend" in jax_names(ROOT / "backends/stencilx_jax/jaxprs.py")


@pytest.mark.parametrize("module", ["stencilx", "stencilx.kernex", "stencilx.boundary"])
def test_import_is_light(module: str) -> None:
    heavy = ("jax", "jaxlib", "torch", "matplotlib", "scipy", "tqdm", "array_api_compat", *BACKENDS)
    script = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# Public names


def test_public_names() -> None:
    names = [name for name in dir(sx) if not name.startswith("_")]
    assert [name for name in names if not isinstance(getattr(sx, name), types.ModuleType)] == PUBLIC
    assert sorted(sx.__all__) == sorted([*PUBLIC, "boundary"])


def test_public_boundary_rules() -> None:
    assert sx.boundary.__all__ == RULES


def public_objects() -> list[Any]:
    """What is public, with the public methods of classes that are ours."""
    kernex = importlib.import_module("stencilx.kernex")
    modules = [sx, sx.boundary, kernex, importlib.import_module("stencilx.backend")]
    found = [getattr(sx, name) for name in PUBLIC] + [getattr(sx.boundary, name) for name in RULES]
    found += [getattr(kernex, name) for name in kernex.__all__]
    members = [member for cls in found if inspect.isclass(cls) for member in methods(cls)]
    return [*modules, *found, *members]


def methods(cls: type) -> list[Any]:
    """Those that a class is the first to have: what overrides a method means what that one's docstring says."""
    inherited = {name for base in cls.__mro__[1:] for name in vars(base)}
    own = [member for name, member in vars(cls).items() if not name.startswith("_") and name not in inherited]
    return [member for member in own if inspect.isfunction(member) or isinstance(member, property)]


def title(thing: Any) -> str:
    thing = getattr(thing, "fget", thing)  # of a property
    return getattr(thing, "__qualname__", getattr(thing, "__name__", ""))


@pytest.mark.parametrize("thing", public_objects(), ids=title)
def test_public_objects_have_docstrings(thing: Any) -> None:
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else inspect.getdoc(thing)
    assert own
    generated = f"{getattr(thing, '__name__', '')}("  # as dataclasses write one
    assert not own.startswith(generated)
    assert own.strip().splitlines()[0].endswith((".", ":"))


@every_module
def test_modules_have_docstrings(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


# Sizes


@every_module
def test_no_module_is_over_500_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500


@every_module
def test_no_function_is_over_50_lines(path: Path) -> None:
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    assert {f.name: size for f in functions if (size := lines_of_code(f)) > 50} == {}


def lines_of_code(function: ast.FunctionDef) -> int:
    """From the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


# The project file and the wheel


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_version() -> None:
    assert project()["version"] == sx.__version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = list(folder.glob("*.whl"))
    assert [path.name for path in built] == [f"stencilx-{sx.__version__}-py3-none-any.whl"]
    with zipfile.ZipFile(built[0]) as archive:
        yield archive


def test_wheel_holds_the_packages_whole(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if name.endswith(".py")}
    ours = {str(path.relative_to(ROOT)).removeprefix("backends/") for path in MODULES}
    assert held == ours


def test_wheel_is_typed(wheel: zipfile.ZipFile) -> None:
    assert {f"{package}/py.typed" for package in ("stencilx", *BACKENDS)} <= set(wheel.namelist())


def test_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"stencilx", *BACKENDS, f"stencilx-{sx.__version__}.dist-info"}
    endings = {Path(name).suffix for name in wheel.namelist() if "dist-info" not in name}
    assert endings == {".py", ".typed"}


def test_wheel_has_licence_and_entry_points(wheel: zipfile.ZipFile) -> None:
    info = f"stencilx-{sx.__version__}.dist-info"
    assert wheel.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert wheel.read(f"{info}/entry_points.txt").decode().split("\n") == [
        "[stencilx.backends]",
        "array_api = stencilx_array_api:BACKEND",
        "jax = stencilx_jax:BACKEND",
        "numpy = stencilx_numpy:BACKEND",
        "",
    ]


def test_wheel_metadata(wheel: zipfile.ZipFile) -> None:
    text = wheel.read(f"stencilx-{sx.__version__}.dist-info/METADATA").decode()
    lines = text.split("\n\n")[0].splitlines()
    for line in (f"Version: {sx.__version__}", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert line in lines
    needed = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist")]
    assert sorted(name for name in needed if "extra" not in name) == sorted(project()["dependencies"])
