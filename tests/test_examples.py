"""The examples against scipy, plain loops and exact solutions: values, schedules, gradients; that each program runs."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import linalg, signal, sparse
from scipy.sparse.linalg import spsolve

import stencilx as sx

FOLDER = Path(__file__).parents[1] / "examples"
SWEEPS = ("columns", "dynamic_programming", "relaxation", "space_time")
STAGGERED = ("maxwell", "shallow_water", "transport")


def example(name: str) -> ModuleType:
    """A program in the folder of examples, as a module."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


columns, dynamic_programming, relaxation, space_time = map(example, SWEEPS)
maxwell, shallow_water, transport = map(example, STAGGERED)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def check_gradient(function: Callable[..., Any], *arguments: Any, step: float = 1e-6) -> None:
    """Compare the gradient along one direction with a central difference."""
    at = tuple(jnp.asarray(argument) for argument in arguments)
    along = [normal(*argument.shape, seed=7 + n) for n, argument in enumerate(at)]
    both = jax.jit(jax.value_and_grad(function, argnums=tuple(range(len(at)))))
    gradients = both(*at)[1]
    slope = sum(np.sum(np.asarray(g) * d) for g, d in zip(gradients, along))
    ahead, behind = (both(*(a + s * d for a, d in zip(at, along)))[0] for s in (step, -step))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6)


def test_every_program_is_tested() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(SWEEPS + STAGGERED)


@pytest.mark.parametrize("name", SWEEPS + STAGGERED)
def test_runs_as_a_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    sys.modules[f"examples_{name}"].main()
    assert (FOLDER / f"{name}.py").read_text().endswith('\n\nif __name__ == "__main__":\n    main()\n')
    shown = capsys.readouterr().out
    assert 3 <= len(shown.splitlines()) <= 10
    assert "nan" not in shown


@pytest.mark.parametrize(
    ("stencil", "arguments", "schedule"),
    [
        (columns.eliminate, [0.2 + normal(5, 3, seed=n) for n in (0, 1, 2)] + [4 + normal(5, 3, seed=3)], "rows"),
        (columns.substitute, [normal(5, 3), normal(5, 3, seed=1)], "rows"),
        (columns.running_sum, [normal(7)], "cells"),
        (columns.running_product, [normal(7)], "cells"),
        (columns.exponential_average, [normal(7), 0.3], "cells"),
        (dynamic_programming.edits, [np.zeros((4, 6), int), np.eye(4, 6, dtype=int)], "cells"),
        (dynamic_programming.common_lengths, [np.zeros((4, 6), int), np.eye(4, 6, dtype=int)], "cells"),
        (dynamic_programming.warped, [normal(4, 6) ** 2], "cells"),
        (dynamic_programming.integral_image, [normal(4, 6)], "cells"),
        (relaxation.jacobi, [normal(4, 6), normal(4, 6, seed=1), 3.0, 2.0, 0.9], "parallel"),
        (relaxation.forward, [normal(4, 6), normal(4, 6, seed=1), 3.0, 2.0, 1.3], "cells"),
        (relaxation.backward, [normal(4, 6), normal(4, 6, seed=1), 3.0, 2.0, 1.3], "cells"),
        (relaxation.red, [normal(4, 6), normal(4, 6, seed=1), 3.0, 2.0, 1.3], "parallel"),
        (relaxation.black, [normal(4, 6), normal(4, 6, seed=1), 3.0, 2.0, 1.3], "parallel"),
        (space_time.linear, [normal(4, 6), 0.7], "rows"),
        (space_time.nonlinear, [normal(4, 6), 0.7], "rows"),
        (space_time.burgers_rows, [normal(4, 6), 0.2, 0.3], "rows"),
        (transport.ring, [normal(5), normal(6, seed=1), 0.2], "parallel"),
        (transport.river, [normal(5), normal(6, seed=1), 0.2], "parallel"),
        (transport.drain, [normal(5), normal(6, seed=1), 0.2], "parallel"),
        (maxwell.magnetic, [normal(5), normal(6, seed=1), 0.2], "parallel"),
        (maxwell.electric, [normal(6), normal(5, seed=1), 1 + normal(6, seed=2) ** 2, 0.2], "parallel"),
    ],
    ids=lambda value: repr(value).split("(")[1].split(",")[0] if isinstance(value, sx.Stencil) else "",
)
def test_schedule_and_the_same_cell_by_cell(stencil: sx.Stencil, arguments: list[Any], schedule: str) -> None:
    assert stencil.schedule(*arguments) == schedule
    fast, slow = stencil(*arguments), stencil.with_backend("numpy")(*arguments)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12), fast, slow)


# Columns


def diagonals(*shape: int) -> list[np.ndarray]:
    """Lower, diagonal and upper entries; the diagonal dominates."""
    lower, upper = normal(*shape, seed=1), normal(*shape, seed=2)
    return [lower, np.sign(normal(*shape, seed=3)) * (1.5 + abs(lower) + abs(upper)), upper]


def solved_by_scipy(lower: np.ndarray, diagonal: np.ndarray, upper: np.ndarray, right: np.ndarray) -> np.ndarray:
    """One column after the other, unknowns along axis 0."""

    def solved(j: int) -> np.ndarray:
        bands = np.array([np.roll(upper[:, j], 1), diagonal[:, j], np.roll(lower[:, j], -1)])
        return linalg.solve_banded((1, 1), bands, right[:, j])

    return np.stack([solved(j) for j in range(right.shape[1])], axis=1)


def test_tridiagonal_case() -> None:
    solution = columns.solve_tridiagonal(1, 4, 1, np.array([5, 6, 5]))
    np.testing.assert_allclose(solution, [1, 1, 1], rtol=1e-15)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tridiagonal_columns_along_either_axis(axis: int) -> None:
    entries, right = diagonals(30, 1000), normal(30, 1000)
    turned = [np.ascontiguousarray(array.T) if axis else array for array in (*entries, right)]
    solution = np.asarray(columns.solve_tridiagonal(*turned, axis=axis))
    np.testing.assert_allclose(solution.T if axis else solution, solved_by_scipy(*entries, right), rtol=1e-10)


def test_tridiagonal_in_a_block_with_numbers_for_entries() -> None:
    right = normal(2, 7, 3)
    solution = columns.solve_tridiagonal(-1.0, 2.5, -1.2, right, axis=1)
    matrix = sparse.diags_array([-1.0, 2.5, -1.2], offsets=[-1, 0, 1], shape=(7, 7)).toarray()
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), rtol=1e-12)


def test_gradient_of_tridiagonal_solve() -> None:
    weight = normal(4, 9, seed=5)
    solve = functools.partial(columns.solve_tridiagonal, axis=1)
    check_gradient(lambda *arrays: jnp.sum(weight * jnp.sin(solve(*arrays))), *diagonals(4, 9), normal(4, 9))


def test_gradient_does_not_see_entries_outside_the_matrix() -> None:
    gradient = jax.jit(jax.grad(lambda *arrays: jnp.sum(columns.solve_tridiagonal(*arrays) ** 2), (0, 2)))
    gradients = gradient(*diagonals(5, 3), normal(5, 3))
    assert not gradients[0][0].any() and gradients[0][1:].all()
    assert not gradients[1][-1].any() and gradients[1][:-1].all()


def test_running_sum_and_product() -> None:
    whole = np.array([3, -1, 4, -1, 5, 9, -2, 6])
    np.testing.assert_array_equal(columns.running_sum(whole), np.cumsum(whole))
    np.testing.assert_array_equal(columns.running_product(whole), np.cumprod(whole))
    np.testing.assert_allclose(columns.running_sum(normal(1001)), np.cumsum(normal(1001)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(columns.running_product(normal(30)), np.cumprod(normal(30)), rtol=1e-12)


def test_exponential_average() -> None:
    x, weight = normal(50), 0.3
    by_scipy, _ = signal.lfilter([weight], [1, weight - 1], x, zi=[(1 - weight) * x[0]])
    np.testing.assert_allclose(columns.exponential_average(x, weight), by_scipy, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("b", "a"), [([0.9], [1.0, -0.1]), ([1.0, -0.4, 0.3], [2.0, 0.5, -0.7, 0.2]), ([0.5, 2.0], [4.0])]
)
def test_recursive_filter(b: list[float], a: list[float]) -> None:
    x = np.array([100.0, 200.0, 300.0, 400.0, 500.0, -50.0])
    np.testing.assert_allclose(columns.recursive_filter(b, a, x), signal.lfilter(b, a, x), rtol=1e-12)


def test_recursive_filter_of_ten_million_samples() -> None:
    b, a, x = [0.9], [1.0, -0.1], normal(10_000_000)
    assert np.abs(columns.recursive_filter(b, a, x) - signal.lfilter(b, a, x)).max() < 1e-14


def test_gradient_of_recursive_filter() -> None:
    weight = normal(20, seed=4)
    check_gradient(
        lambda b, a, x: jnp.sum(weight * columns.recursive_filter(b, a, x)),
        np.array([0.5, -0.2]),
        np.array([1.5, 0.4, -0.3]),
        normal(20),
    )


# Dynamic programming


WORDS = [
    ("kitten", "sitting"),
    ("sunday", "saturday"),
    ("a", "bcd"),
    ("", "abc"),
    ("abc", ""),
    ("", ""),
    ("cba", "cba"),
]
LETTERS = np.random.default_rng(3).choice(list("acgt"), 60)
WORDS += [("".join(LETTERS[:23]), "".join(LETTERS[23:]))]


def distance_by_recursion(a: str, b: str) -> int:
    @functools.cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        change = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(change, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(a), len(b))


def common_by_recursion(a: str, b: str) -> int:
    @functools.cache
    def common(i: int, j: int) -> int:
        if not i or not j:
            return 0
        same = a[i - 1] == b[j - 1]
        return common(i - 1, j - 1) + 1 if same else max(common(i - 1, j), common(i, j - 1))

    return common(len(a), len(b))


@pytest.mark.parametrize(("a", "b"), WORDS)
def test_edit_distance(a: str, b: str) -> None:
    assert dynamic_programming.edit_distance(a, b) == distance_by_recursion(a, b)


def test_edit_table_of_beginnings() -> None:
    table = dynamic_programming.edit_table("kitten", "sitting")
    assert [[distance_by_recursion("kitten"[:i], "sitting"[:j]) for j in range(8)] for i in range(7)] == table.tolist()


@pytest.mark.parametrize(("a", "b"), WORDS)
def test_common_subsequence(a: str, b: str) -> None:
    found = dynamic_programming.common_subsequence(a, b)
    assert len(found) == common_by_recursion(a, b)
    for text in (a, b):
        letters = iter(text)
        assert all(letter in letters for letter in found)


def path_by_loops(cost: np.ndarray) -> tuple[float, list[tuple[int, int]]]:
    """The length of the cheapest path through a table, and the path."""
    total = np.full(np.add(cost.shape, 1), np.inf)
    total[0, 0] = 0
    for i, j in np.ndindex(*cost.shape):
        total[i + 1, j + 1] = cost[i, j] + min(total[i, j], total[i, j + 1], total[i + 1, j])
    path = [cost.shape]
    while path[-1] != (1, 1):
        i, j = path[-1]
        path.append(min([(i - 1, j - 1), (i - 1, j), (i, j - 1)], key=lambda cell: total[cell]))
    return total[cost.shape], [(i - 1, j - 1) for i, j in reversed(path)]


def test_time_warping() -> None:
    x, y = np.cumsum(normal(13)), np.cumsum(normal(17))
    distance, path = path_by_loops(np.square(x[:, None] - y))
    np.testing.assert_allclose(dynamic_programming.warping_distance(x, y), distance, rtol=1e-12)
    np.testing.assert_array_equal(dynamic_programming.warping_path(x, y), path)
    assert not dynamic_programming.warping_distance(x, x[np.arange(17) * 13 // 17])


def test_gradient_of_time_warping() -> None:
    check_gradient(dynamic_programming.warping_distance, np.cumsum(normal(8)), np.cumsum(normal(11, seed=1)))


def test_integral_image_and_box_sums() -> None:
    image = np.random.default_rng(0).integers(-9, 9, (7, 11))
    np.testing.assert_array_equal(dynamic_programming.integral_image(image), image.cumsum(0).cumsum(1))
    for rows, columns_ in ((2, 3), (1, 1), (7, 4), (3, 11)):
        boxes = np.lib.stride_tricks.sliding_window_view(image, (rows, columns_))
        np.testing.assert_array_equal(dynamic_programming.box_sums(image, rows, columns_), boxes.sum((2, 3)))


def test_gradient_of_integral_image_is_the_integral_from_the_other_corner() -> None:
    weight = normal(3, 5)
    gradient = jax.grad(lambda image: jnp.sum(weight * dynamic_programming.integral_image(image)))(normal(3, 5, seed=1))
    np.testing.assert_allclose(gradient, weight[::-1, ::-1].cumsum(0).cumsum(1)[::-1, ::-1], rtol=1e-12)


# Relaxation


PROBLEM = relaxation.example()


def by_loops(u: np.ndarray, f: np.ndarray, wy: float, wx: float, omega: float, cells: list[tuple[int, int]]) -> None:
    """Relax cells one after the other, in place."""
    for i, j in cells:
        around = wy * (u[i - 1, j] + u[i + 1, j]) + wx * (u[i, j - 1] + u[i, j + 1])
        u[i, j] = (1 - omega) * u[i, j] + omega * (around + f[i, j]) / (2 * wy + 2 * wx)


def solved_directly(problem: Any) -> np.ndarray:
    """The equations of all inner nodes, assembled as a sparse matrix; the walls go to the right-hand side."""
    u, (wy, wx) = problem.start.copy(), problem.weights
    rows, nodes = (n - 2 for n in u.shape)
    second = [sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)) for n in (rows, nodes)]
    right = problem.f[1:-1, 1:-1].copy()
    right[0] += wy * u[0, 1:-1]
    right[-1] += wy * u[-1, 1:-1]
    right[:, 0] += wx * u[1:-1, 0]
    right[:, -1] += wx * u[1:-1, -1]
    matrix = -wy * sparse.kron(second[0], sparse.eye_array(nodes)) - wx * sparse.kron(sparse.eye_array(rows), second[1])
    u[1:-1, 1:-1] = spsolve(matrix.tocsc(), right.ravel()).reshape(rows, nodes)
    return u


def test_one_sweep_of_the_case() -> None:
    u = np.zeros((4, 4))
    u[1:3, 1:3] = [[1, 2], [3, 4]]
    args = (u, np.zeros((4, 4)), 1.0, 1.0, 1.0)
    np.testing.assert_array_equal(relaxation.forward(*args)[1:3, 1:3], [[1.25, 1.3125], [1.3125, 0.65625]])
    np.testing.assert_array_equal(relaxation.jacobi(*args)[1:3, 1:3], [[1.25, 1.25], [1.25, 1.25]])


@pytest.mark.parametrize("name", ["forward", "symmetric", "red_black"])
def test_one_step_is_that_of_loops(name: str) -> None:
    u, f = normal(6, 9), normal(6, 9, seed=1)
    inner = [(i, j) for i in range(1, 5) for j in range(1, 8)]
    orders = {"forward": inner, "symmetric": inner + inner[::-1], "red_black": sorted(inner, key=lambda c: sum(c) % 2)}
    given, expected = u.copy(), u.copy()
    by_loops(expected, f, 3.0, 2.0, 1.3, orders[name])
    np.testing.assert_allclose(getattr(relaxation, name)(u, f, 3.0, 2.0, 1.3), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(u, given)


def test_all_methods_converge_to_the_direct_solution() -> None:
    exact, omega = solved_directly(PROBLEM), PROBLEM.best_omega()
    counts = {}
    for name, factor in (("jacobi", 1.0), ("forward", 1.0), ("sor", omega), ("symmetric", omega), ("red_black", omega)):
        step = relaxation.forward if name == "sor" else getattr(relaxation, name)
        u, counts[name] = relaxation.solve(PROBLEM, step, factor, tolerance=1e-8)
        np.testing.assert_allclose(u, exact, rtol=0, atol=1e-9)
    assert abs(counts["jacobi"] / counts["forward"] - 2) < 0.02  # Young: the asymptotic rates are as 1 to 2
    assert max(counts["sor"], counts["symmetric"], counts["red_black"]) < counts["forward"] / 4


def test_best_omega_is_best() -> None:
    best = PROBLEM.best_omega()
    counts = [relaxation.solve(PROBLEM, relaxation.red_black, best + d)[1] for d in (-0.1, 0.0, 0.1)]
    assert counts[1] == min(counts)


def test_at_most_so_many_steps() -> None:
    assert relaxation.solve(PROBLEM, relaxation.forward, most=5)[1] == 5


def test_gradient_of_symmetric_sweeps() -> None:
    weight = normal(5, 8, seed=3)

    def loss(u: jax.Array, f: jax.Array, omega: jax.Array) -> jax.Array:
        u = lax.fori_loop(0, 3, lambda _, u: relaxation.symmetric(u, f, 3.0, 2.0, omega), u)
        return jnp.sum(weight * u**2)

    check_gradient(loss, normal(5, 8), normal(5, 8, seed=1), 1.3)


def with_published_walls(make: Callable[..., Any]) -> Any:
    """Laplace's equation of numerical-mooc, lesson 05_03: u given on three walls, no slope on the right one."""
    mesh = make(relative=True, padding="same")
    mesh[:] = lambda u, omega: u[0, 0]
    mesh[1:-1, 1:-1] = lambda u, omega: (1 - omega) * u[0, 0] + omega * 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])
    mesh[1:-1, -1] = lambda u, omega: 0.25 * (2 * u[0, -1] + u[-1, 0] + u[1, 0])
    return mesh


@pytest.mark.parametrize(("make", "omega", "count"), [(sx.kmap, 1.0, 19993), (sx.kscan, 1.5, 7108)])
def test_published_counts(make: Callable[..., Any], omega: float, count: int) -> None:
    step = with_published_walls(make)

    def body(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        u, steps, _ = state
        new = step(u, omega)
        return new, steps + 1, jnp.sqrt(jnp.sum((new - u) ** 2) / jnp.sum(u**2))

    u = jnp.zeros((128, 128)).at[-1].set(jnp.sin(1.5 * np.pi * jnp.linspace(0, 1, 128)))
    assert lax.while_loop(lambda state: state[2] > 1e-8, body, (u, 0, 1.0))[1] == count


# Space-time


def convected_by_loops(u: np.ndarray, steps: int, ratio: float, speed: float | None) -> np.ndarray:
    states = [u]
    for _ in range(steps):
        old, new = states[-1], np.ones_like(u)
        for i in range(1, u.size):
            new[i] = old[i] - (old[i] if speed is None else speed) * ratio * (old[i] - old[i - 1])
        states.append(new)
    return np.array(states)


@pytest.mark.parametrize("speed", [None, 0.8])
def test_convection(speed: float | None) -> None:
    initial = 1 + 0.5 * np.abs(normal(23))
    states = space_time.convect(initial, 17, 0.02, 0.05, speed)
    np.testing.assert_allclose(states, convected_by_loops(initial, 17, 0.02 / 0.05, speed), rtol=1e-12)


def test_convection_at_courant_number_one_only_moves() -> None:
    initial = normal(9)
    states = space_time.convect(initial, 4, 0.25, 0.25, 1.0)
    np.testing.assert_allclose(states[-1], [1, 1, 1, 1, *initial[:-4]], rtol=1e-12)


def test_burgers() -> None:
    n, steps, dt, viscosity = 31, 40, 0.002, 0.07
    dx = 2 * np.pi / n
    u = space_time.saw_tooth(np.arange(n) * dx, 0, viscosity)
    states = [u]
    for _ in range(steps):
        left, right = np.roll(u, 1), np.roll(u, -1)
        u = u - u * dt / dx * (u - left) + viscosity * dt / dx**2 * (right - 2 * u + left)
        states.append(u)
    np.testing.assert_allclose(space_time.burgers(states[0], steps, dt, dx, viscosity), states, rtol=1e-11)


def test_burgers_approaches_the_exact_solution() -> None:
    errors = []
    for n in (150, 300):
        x, steps = np.arange(n) * 2 * np.pi / n, 8 * n
        last = space_time.burgers(space_time.saw_tooth(x, 0, 0.2), steps, 0.3 / steps, x[1], 0.2)[-1]
        errors.append(np.abs(last - space_time.saw_tooth(x, 0.3, 0.2)).mean())
    assert errors[1] / errors[0] < 0.6  # of first order: half the error


@pytest.mark.parametrize("speed", [None, 0.8])
def test_gradient_of_the_final_row_of_convection(speed: float | None) -> None:
    weight, initial = normal(14, seed=2), 1 + 0.5 * np.abs(normal(14))

    def loss(initial: jax.Array, speed: jax.Array | None = None) -> jax.Array:
        return jnp.sum(weight * space_time.convect(initial, 9, 0.02, 0.05, speed)[-1] ** 2)

    check_gradient(loss, initial, *([] if speed is None else [speed]))


def test_gradient_of_burgers() -> None:
    weight, initial = normal(16, 12, seed=2), 2 + 0.5 * np.abs(normal(12))

    def loss(initial: jax.Array, viscosity: jax.Array) -> jax.Array:
        return jnp.sum(weight * space_time.burgers(initial, 15, 0.01, 0.1, viscosity))

    check_gradient(loss, initial, 0.1)


# Transport


def transported_by_loops(
    c: np.ndarray, v: np.ndarray, steps: int, dt: float, dx: float, ends: Callable[[np.ndarray, float], Any]
) -> np.ndarray:
    """Move what crosses each face from cell to cell; `ends` gives what lies before the first and behind the last."""
    for number in range(steps):
        before, behind = ends(c, number * dt)
        given, new = [before, *c, behind], c.copy()
        for i, speed in enumerate(v):
            moved = dt / dx * speed * given[i if speed > 0 else i + 1]
            if i:
                new[i - 1] -= moved
            if i < c.size:
                new[i] += moved
        c = new
    return c


def flow(n: int, kind: str) -> np.ndarray:
    """Velocities of both signs on n + 1 faces that suit a ring, walls or a river."""
    v = np.random.default_rng(5).uniform(-1, 1, n + 1)
    v[[0, -1]] = {"ring": (v[0], v[0]), "walls": (0, 0), "river": (0.7, 0.4)}[kind]
    return v


ENDS: dict[str, Callable[[np.ndarray, float], Any]] = {
    "ring": lambda c, time: (c[-1], c[0]),
    "walls": lambda c, time: (0, 0),
    "river": lambda c, time: (1 + np.sin(time), c[-1]),
}


@pytest.mark.parametrize("kind", ENDS)
def test_transport_is_that_of_loops(kind: str) -> None:
    c, v = 1 + normal(13) ** 2, flow(13, kind)
    last = transport.transport(c, v, 30, 0.03, 0.07, getattr(transport, kind))
    np.testing.assert_allclose(last, transported_by_loops(c, v, 30, 0.03, 0.07, ENDS[kind]), rtol=1e-12)


@pytest.mark.parametrize("kind", ["ring", "walls"])
def test_transport_keeps_mass_and_sign(kind: str) -> None:
    c, v = normal(101) ** 2, flow(101, kind)
    c[40:50] = 0
    last = transport.transport(c, v, 1000, 0.005, 0.01, getattr(transport, kind))  # no cell loses more than it has
    assert abs(np.sum(last) / np.sum(c) - 1) < 1e-13
    assert np.min(last) >= 0


@pytest.mark.parametrize("sign", [1, -1])
def test_transport_at_courant_number_one_only_moves(sign: int) -> None:
    c = normal(9)
    last = transport.transport(c, np.full(10, sign * 2.0), 4, 0.25, 0.5)
    np.testing.assert_allclose(last, np.roll(c, 4 * sign), rtol=1e-14)


@pytest.mark.parametrize("kind", ENDS)
def test_gradient_of_transport(kind: str) -> None:
    """With respect to what is there and to the velocities inside: that in a wall stays 0, where upwind turns over."""
    weight, c, v = normal(13, seed=2), 1 + normal(13) ** 2, flow(13, kind)

    def loss(c: jax.Array, inner: jax.Array) -> jax.Array:
        speeds = jnp.asarray(v).at[1:-1].set(inner)
        return jnp.sum(weight * transport.transport(c, speeds, 20, 0.03, 0.07, getattr(transport, kind)))

    check_gradient(loss, c, v[1:-1])


# Maxwell


@pytest.mark.parametrize("ratio", [0.5, 0.9])
def test_standing_wave_to_second_order(ratio: float) -> None:
    errors = [maxwell.standing_error(n, 1.8, ratio, mode=3) for n in (30, 60, 120)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders, 2, atol=0.1)


def test_standing_wave_at_courant_number_one_is_exact() -> None:
    assert maxwell.standing_error(37, 1000.0, 1.0, mode=3) < 1e-11


def test_leapfrog_keeps_what_it_keeps() -> None:
    """E at two whole steps times H between them: the energy of the scheme; and E at the walls."""
    epsilon, e, h = 1 + normal(41, seed=2) ** 2, normal(41), normal(40, seed=1)
    e[[0, -1]] = 0

    def scheme_energy(e: Any, h: Any) -> float:
        before = h + 0.8 * np.diff(e)  # H half a step earlier
        return float(np.sum(epsilon * np.square(e)) + np.sum(h * before))

    last = maxwell.propagate(e, h, 500, 0.8, epsilon)
    np.testing.assert_allclose(scheme_energy(*map(np.asarray, last)), scheme_energy(e, h), rtol=1e-12)
    assert not last[0][0] and not last[0][-1]


def test_echo_of_glass_is_fresnels() -> None:
    value, slope = jax.value_and_grad(maxwell.echo)(2.25)  # of index 1.5
    np.testing.assert_allclose([value, slope], [-0.5 / 2.5, -1 / (1.5 * 2.5**2)], rtol=5e-3)


def test_gradient_of_maxwell() -> None:
    weight, e = normal(12, seed=3), normal(12)
    e[[0, -1]] = 0
    check_gradient(
        lambda h, epsilon: jnp.sum(weight * maxwell.propagate(e, h, 15, 0.8, epsilon)[0]),
        normal(11, seed=1),
        1 + normal(12, seed=2) ** 2,
    )


# Shallow water


def with_ghosts(field: np.ndarray, axis: int, sign: int) -> np.ndarray:
    """One more on both sides: the end values times a sign."""
    first, last = np.take(field, [0], axis), np.take(field, [-1], axis)
    return np.concatenate([sign * first, field, sign * last], axis)


def rates_by_slices(h: np.ndarray, u: np.ndarray, v: np.ndarray, basin: Any, sign: int) -> list[np.ndarray]:
    """The same scheme on slices of whole arrays; sign is -1 where water sticks to walls."""
    dy, dx, g, f, viscosity = basin
    U, V = np.zeros_like(u), np.zeros_like(v)
    U[:, 1:-1] = u[:, 1:-1] * (h[:, 1:] + h[:, :-1]) / 2
    V[1:-1] = v[1:-1] * (h[1:] + h[:-1]) / 2
    q = np.zeros((h.shape[0] + 1, h.shape[1] + 1))  # where it counts
    corners = (h[1:, 1:] + h[1:, :-1] + h[:-1, 1:] + h[:-1, :-1]) / 4
    q[1:-1, 1:-1] = (f + np.diff(v, axis=1)[1:-1] / dx - np.diff(u, axis=0)[:, 1:-1] / dy) / corners
    b = g * h + (u[:, 1:] ** 2 + u[:, :-1] ** 2 + v[1:] ** 2 + v[:-1] ** 2) / 4
    du, dv = np.zeros_like(u), np.zeros_like(v)
    turned = q[:, 1:-1] * (V[:, 1:] + V[:, :-1]) / 2
    du[:, 1:-1] = (turned[1:] + turned[:-1]) / 2 - np.diff(b, axis=1) / dx
    du[:, 1:-1] += viscosity * np.diff(u, 2, axis=1) / dx**2
    du[:, 1:-1] += viscosity * np.diff(with_ghosts(u, 0, sign), 2, axis=0)[:, 1:-1] / dy**2
    turned = q[1:-1] * (U[1:] + U[:-1]) / 2
    dv[1:-1] = -(turned[:, 1:] + turned[:, :-1]) / 2 - np.diff(b, axis=0) / dy
    dv[1:-1] += viscosity * np.diff(v, 2, axis=0) / dy**2
    dv[1:-1] += viscosity * np.diff(with_ghosts(v, 1, sign), 2, axis=1)[1:-1] / dx**2
    return [-np.diff(U, axis=1) / dx - np.diff(V, axis=0) / dy, du, dv]


def advanced_by_slices(state: Any, basin: Any, dt: float, steps: int, sign: int) -> list[np.ndarray]:
    def euler(x: list[np.ndarray]) -> list[np.ndarray]:
        return [a + dt * b for a, b in zip(x, rates_by_slices(*x, basin, sign))]

    def mean(weight: float, x: list[np.ndarray], y: list[np.ndarray]) -> list[np.ndarray]:
        return [weight * a + (1 - weight) * b for a, b in zip(x, y)]

    x = list(state)
    for _ in range(steps):
        x = mean(1 / 3, x, euler(mean(3 / 4, x, euler(euler(x)))))
    return x


def stirred(ny: int = 6, nx: int = 9) -> tuple[Any, Any]:
    """A basin in which everything moves."""
    u, v = 0.1 * normal(ny, nx + 1, seed=1), 0.1 * normal(ny + 1, nx, seed=2)
    u[:, [0, -1]] = 0
    v[[0, -1]] = 0
    basin = shallow_water.Basin(0.3, 0.2, g=1.5, f=0.7, viscosity=0.02)
    return shallow_water.State(1 + 0.1 * normal(ny, nx), u, v), basin


@pytest.mark.parametrize(("walls", "sign"), [("slips", 1), ("sticks", -1)])
def test_shallow_water_is_that_of_slices(walls: str, sign: int) -> None:
    state, basin = stirred()
    last = shallow_water.advance(state, basin, 0.05, 25, walls)
    for field, expected in zip(last, advanced_by_slices(state, basin, 0.05, 25, sign)):
        np.testing.assert_allclose(field, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("backend", ["numpy", "array_api"])
def test_rates_of_shallow_water_on_other_backends(backend: str) -> None:
    state, basin = stirred()
    expected = shallow_water.rates(state, basin, "sticks")
    with sx.use_backend(backend):
        got = shallow_water.rates(state, basin, "sticks")
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14), got, expected)


def test_shallow_water_keeps_mass_and_energy() -> None:
    """In space no energy is lost; in time an eighth as much with steps half as long."""
    first, basin = shallow_water.example()
    lost = []
    for dt, steps in ((0.01, 1000), (0.005, 2000)):
        last = shallow_water.advance(first, basin, dt, steps)
        assert abs(shallow_water.mass(last, basin) / shallow_water.mass(first, basin) - 1) < 1e-12
        assert not np.any(last.u[:, [0, -1]]) and not np.any(last.v[jnp.array([0, -1])])
        lost.append(1 - shallow_water.energy(last, basin) / shallow_water.energy(first, basin))
    assert 0 < lost[0] < 0.01
    assert 6 < lost[0] / lost[1] < 10


@pytest.mark.parametrize("along", ["y", "x"])
def test_a_seiche_swings_as_it_must(along: str) -> None:
    """A small standing wave across the basin, against linear theory: second order in the size of cells."""
    errors = []
    for n in (16, 32):
        basin = shallow_water.Basin(1 / n, 2 / n, g=2.0)
        length, shape = (1.0, (n, n)) if along == "y" else (2.0, (n, n))
        position = (np.arange(n) + 0.5) / n
        wave = np.cos(np.pi * position)
        hill = np.broadcast_to(wave[:, None] if along == "y" else wave, shape)
        first = shallow_water.State(1 + 1e-7 * hill, np.zeros((n, n + 1)), np.zeros((n + 1, n)))
        frequency = np.sqrt(2.0) * np.pi / length
        last = shallow_water.advance(first, basin, 0.2 / n, 5 * n)  # after a time of 1
        errors.append(np.abs((np.asarray(last.h) - 1) / 1e-7 - hill * np.cos(frequency)).max())
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.1


def test_gradient_of_shallow_water() -> None:
    state, basin = stirred(3, 5)
    weights = [normal(*np.shape(x), seed=9) for x in state]

    def loss(h: jax.Array, viscosity: jax.Array) -> jax.Array:
        last = shallow_water.advance(state._replace(h=h), basin._replace(viscosity=viscosity), 0.05, 10, "sticks")
        return sum((jnp.sum(w * x) for w, x in zip(weights, last)), jnp.asarray(0.0))

    check_gradient(loss, state.h, 0.02)
