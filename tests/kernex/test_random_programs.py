"""Random programs in kernex's spelling against loops over NumPy arrays."""

import jax.numpy as jnp
import kernex_loops as loops
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import stencilx as sx
import stencilx.kernex as kex

PADDINGS = ["same", "valid", 0, 1, (0, 1), (2, 0), (1, 2), (-1, 1)]


@st.composite
def programs(draw, paddings=PADDINGS):
    """An array without symmetries, and keywords that leave at least one window on each axis."""
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.permutations([3, 4, 5]))[:ndim])
    options = {
        "kernel_size": tuple(draw(st.integers(1, 3)) for _ in shape),
        "strides": tuple(draw(st.integers(1, 3)) for _ in shape),
        "padding": tuple(draw(st.sampled_from(paddings)) for _ in shape),
        "relative": draw(st.booleans()),
    }
    seed = draw(st.integers(0, 99))
    return np.random.default_rng(seed).integers(-9, 9, shape), options


@settings(max_examples=50, deadline=None)
@given(programs())
def test_kmap(program):
    x, options = program
    w = np.arange(1, 1 + np.prod(options["kernel_size"])).reshape(options["kernel_size"]) ** 2
    F = kex.kmap(**options)(lambda window, w: jnp.sum(window * w))
    assert_array_equal(F(x, w), loops.kmap(lambda _, window: np.sum(window * w), x, **options))


@st.composite
def keys(draw, shape):
    """An index of an array of that shape, as a user would write it."""
    items = []
    for n in shape[: draw(st.integers(1, len(shape)))]:
        ends = st.none() | st.integers(-n, n)
        ranges = st.builds(slice, ends, ends, st.sampled_from([None, None, 2]))
        items.append(draw(st.integers(-n, n - 1) | ranges))
    return tuple(items) if len(items) > 1 else items[0]


@settings(max_examples=50, deadline=None)
@given(programs(), st.data())
def test_mesh(program, data):
    x, options = program
    background = data.draw(st.sampled_from([None, slice(None), ...]))
    chosen = [] if background is None else [background]
    chosen += [data.draw(keys(x.shape)) for _ in range(3 - len(chosen))]
    owner, outside = np.full(x.shape, -1), -1
    F = kex.kmap(**options)
    for number, key in enumerate(chosen):
        owner[key] = number
        outside = number if (owner == number).all() else outside
        F[key] = lambda window, number=number: window[(0,) * window.ndim] - window[(-1,) * window.ndim] + 100 * number

    def kernel(centre, window):
        inside = all(0 <= c < n for c, n in zip(centre, x.shape, strict=True))
        number = owner[centre] if inside else outside
        if number < 0:
            raise LookupError
        return window[(0,) * window.ndim] - window[(-1,) * window.ndim] + 100 * number

    try:
        expected = loops.kmap(kernel, x, **options)
    except LookupError:
        with pytest.raises(sx.RegionError):
            F(x)
    else:
        assert_array_equal(F(x), expected)
