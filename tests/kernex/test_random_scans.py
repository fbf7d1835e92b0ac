"""Random scans in kernex's spelling against loops over NumPy arrays."""

import jax.numpy as jnp
import kernex_loops as loops
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from test_random_programs import keys

import stencilx as sx
import stencilx.kernex as kex


def scan(kernel, x, kernel_size, strides, padding, relative, reverse):
    """The array after the scan, and the cells that `kernel(centre, window)` has written, on their grid."""
    state = x.astype(float)
    grid, found = loops.windows(x, kernel_size, strides, padding)
    centres = [centre for _, centre, _ in found]
    for centre in reversed(centres) if reverse else centres:
        window = np.zeros(kernel_size)
        for tap in np.ndindex(*kernel_size):
            place = tuple(c + t - (k - 1) // 2 for c, t, k in zip(centre, tap, kernel_size, strict=True))
            if all(0 <= p < n for p, n in zip(place, x.shape, strict=True)):
                window[tap] = state[place]
        state[centre] = kernel(centre, loops.rolled(window) if relative else window)
    return state, np.array([state[centre] for centre in centres]).reshape(grid)


@st.composite
def programs(draw):
    """An array without symmetries, keywords for a window that stays where it can write, and margins for sscan."""
    ndim = draw(st.sampled_from([1, 2, 2, 3]))
    shape = tuple(draw(st.permutations([4, 5, 6]))[:ndim])
    sizes = [draw(st.integers(1, 3)) for _ in shape]
    sides = [((k - 1) // 2, k // 2) for k in sizes]
    padding = [(draw(st.integers(-1, before)), draw(st.integers(0, after))) for before, after in sides]
    options = {
        "kernel_size": tuple(sizes),
        "strides": tuple(draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in shape),
        "relative": draw(st.booleans()),
    }
    margins = [(before - p, after - q) for (before, after), (p, q) in zip(sides, padding, strict=True)]
    x = np.random.default_rng(draw(st.integers(0, 99))).integers(-9, 9, shape)
    return x, options, tuple(padding), tuple(margins), draw(st.booleans())


def both_scans(assignments, program, *args):
    """Of the same mesh: the whole array by sscan, and what kscan writes."""
    x, options, padding, margins, reverse = program
    kwargs = {"reverse": True} if reverse else None
    found = []
    for F in (
        kex.sscan(**options, offset=margins, scan_kwargs=kwargs),
        kex.kscan(**options, padding=padding, scan_kwargs=kwargs),
    ):
        for key, kernel in assignments:
            F[key] = kernel
        found.append(F(x, *args))
    return found


@settings(max_examples=20, deadline=None)
@given(programs())
def test_one_kernel(program):
    x, options, padding, _, reverse = program
    w = np.random.default_rng(1).uniform(-1, 1, options["kernel_size"]) / 2
    whole, written = scan(lambda _, window: np.sum(w * window), x, padding=padding, reverse=reverse, **options)
    by_sscan, by_kscan = both_scans([(..., lambda window, w: jnp.sum(w * window))], program, w)
    assert_allclose(by_sscan, whole, rtol=1e-9, atol=1e-9)
    assert_allclose(by_kscan, written, rtol=1e-9, atol=1e-9)


KERNELS = [
    (lambda window: window[(0,) * window.ndim] / 2 - window[(-1,) * window.ndim], None),
    (lambda window: jnp.max(window) - 1, lambda window: window.max() - 1),
    (lambda window: 7, lambda window: 7),
    (lambda window: jnp.sin(jnp.sum(window)), lambda window: np.sin(window.sum())),
]


@settings(max_examples=40, deadline=None)
@given(programs(), st.data())
def test_mesh(program, data):
    x, options, padding, _, reverse = program
    chosen = [data.draw(st.sampled_from([slice(None), ...])), *(data.draw(keys(x.shape)) for _ in range(2))]
    chosen = chosen[data.draw(st.sampled_from([0, 0, 0, 1])) :]
    pairs = data.draw(st.permutations(KERNELS))
    owner = np.full(x.shape, -1)
    for number, key in enumerate(chosen):
        owner[key] = number

    def kernel(centre, window):
        mine, in_numpy = pairs[owner[centre]]
        return (in_numpy or mine)(window)

    assignments = [(key, kernel) for key, (kernel, _) in zip(chosen, pairs, strict=False)]
    _, found = loops.windows(x, options["kernel_size"], options["strides"], padding)
    if any(owner[centre] < 0 for _, centre, _ in found):
        with pytest.raises(sx.RegionError, match="no region covers"):
            both_scans(assignments, program)
        return
    whole, written = scan(kernel, x, padding=padding, reverse=reverse, **options)
    by_sscan, by_kscan = both_scans(assignments, program)
    assert_allclose(by_sscan, whole, rtol=1e-9, atol=1e-9)
    assert_allclose(by_kscan, written, rtol=1e-9, atol=1e-9)
