"""The map examples of kernex's README and docstrings: the numbers printed there, or those of an independent oracle."""

import jax
import jax.numpy as jnp
import kernex_loops as loops
import numpy as np
import pytest
import scipy.ndimage
from numpy.testing import assert_allclose, assert_array_equal

import stencilx.kernex as kex


def random(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def test_sum_all():
    @kex.kmap(kernel_size=(3,))
    def sum_all(x):
        return jnp.sum(x)

    assert str(sum_all(jnp.array([1, 2, 3, 4, 5]))) == "[ 6  9 12]"


def test_convolution():
    @jax.jit
    @kex.kmap(kernel_size=(3, 3, 3), padding=("valid", "same", "same"))
    def kernex_conv2d(x, w):
        return jnp.sum(x * w)

    x, w = random(3, 5, 8), random(3, 3, 3, seed=1)
    result = kernex_conv2d(x, w)
    by_loops = loops.kmap(
        lambda _, window: np.sum(window * np.asarray(w)), np.asarray(x), (3, 3, 3), 1, ("valid", "same", "same")
    )
    by_lax = jax.lax.conv_general_dilated(
        x[None], w[None], (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"), precision="highest"
    )[0]
    assert_allclose(result, by_loops, rtol=1e-5, atol=1e-5)
    assert_allclose(result, by_lax, rtol=1e-5, atol=1e-5)


@kex.kmap(kernel_size=(3, 3), padding="valid", relative=True)
def laplacian(x):
    return (
        0 * x[1, -1] + 1 * x[1, 0] + 0 * x[1, 1]
        + 1 * x[0, -1] + -4 * x[0, 0] + 1 * x[0, 1]
        + 0 * x[-1, -1] + 1 * x[-1, 0] + 0 * x[-1, 1]
    )  # fmt: skip


def test_laplacian():
    assert_array_equal(laplacian(jnp.ones([10, 10])), np.zeros((8, 8)))
    x = random(4, 7)
    assert_allclose(laplacian(x), scipy.ndimage.laplace(np.asarray(x))[1:-1, 1:-1], rtol=1e-5, atol=1e-5)


def test_patches():
    @kex.kmap(kernel_size=(3, 3), relative=True)
    def identity(x):
        return x[0, 0]

    @jax.jit
    @kex.kmap(kernel_size=(3, 3), padding="same")
    def get_3x3_patches(x):
        return x

    mat = jnp.arange(1, 26).reshape(5, 5)
    assert get_3x3_patches(mat).shape == (5, 5, 3, 3)
    assert str(get_3x3_patches(mat)[0, 0]) == "[[0 0 0]\n [0 1 2]\n [0 6 7]]"
    assert_array_equal(identity(mat), np.asarray(mat)[1:-1, 1:-1])
    wide = np.arange(1, 16).reshape(3, 5)
    patches = get_3x3_patches(jnp.asarray(wide))
    assert_array_equal(patches, loops.kmap(lambda _, window: window, wide, (3, 3), 1, "same"))


def test_function_mesh_and_its_gradient():
    F = kex.kmap(kernel_size=(3,), padding="same", relative=True)
    F[0] = lambda x: x[0] ** 2
    F[1:-1] = lambda x: x[-1] * x[1]
    F[-1] = lambda x: 3 * x[0]
    x = jnp.array([2.0, 3.0, 5.0, 7.0])
    assert_array_equal(F(x), [4, 10, 21, 21])
    assert_array_equal(jax.grad(lambda x: F(x).sum())(x), [2 * 2 + 5, 7, 2, 3 + 3])


def gaussian_blur(image, sigma, kernel_size):
    x = jnp.linspace(-(kernel_size - 1) / 2.0, (kernel_size - 1) / 2.0, kernel_size)
    w = jnp.exp(-0.5 * jnp.square(x) * jax.lax.rsqrt(sigma))
    w = jnp.outer(w, w)
    w = w / w.sum()

    @kex.kmap(kernel_size=(kernel_size, kernel_size), padding="same")
    def conv(x):
        return jnp.sum(x * w)

    return conv(image)


def zero_outside(image, weights):
    return scipy.ndimage.correlate(np.asarray(image), weights, mode="constant")


def test_gaussian_blur_with_the_weights_of_the_readme():
    image, sigma, size = random(6, 9), 1.7, 5
    x = np.arange(size) - 2
    w = np.exp(-0.5 * x**2 / np.sqrt(sigma))  # no gaussian of that sigma: the README takes the root of sigma
    expected = zero_outside(image, np.outer(w, w) / np.outer(w, w).sum())
    assert_allclose(gaussian_blur(image, sigma, size), expected, rtol=1e-4, atol=1e-5)
    blur = jax.jit(gaussian_blur, static_argnums=2)
    assert_allclose(blur(image, sigma, size), expected, rtol=1e-4, atol=1e-5)


def test_gaussian_blur_with_the_weights_of_a_gaussian():
    image, sigma, size = random(6, 9), 1.3, 7

    @kex.kmap(kernel_size=(size, size), padding="same")
    def blur(x):
        w = jnp.exp(-(jnp.linspace(-(size // 2), size // 2, size) ** 2) / (2 * sigma**2))
        w = jnp.outer(w, w)
        return jnp.sum(x * w) / jnp.sum(w)

    expected = scipy.ndimage.gaussian_filter(np.asarray(image), sigma, mode="constant", radius=size // 2)
    assert_allclose(blur(image), expected, rtol=1e-4, atol=1e-5)


def test_depthwise_convolution():
    @jax.jit
    @jax.vmap
    @kex.kmap(kernel_size=(3, 3), padding=("same", "same"))
    def kernex_depthwise_conv2d(x, w):
        return jnp.sum(x * w)

    h, w, c = 5, 5, 2
    k = 3
    x = jnp.arange(1, h * w * c + 1).reshape(c, h, w)
    w = jnp.arange(1, k * k * c + 1).reshape(c, k, k)
    expected = [zero_outside(x[i], np.asarray(w[i])) for i in range(c)]
    assert_array_equal(kernex_depthwise_conv2d(x, w), expected)
    wide = jnp.arange(24).reshape(2, 3, 4)
    expected = [zero_outside(wide[i], np.asarray(w[i])) for i in range(c)]
    assert_array_equal(kernex_depthwise_conv2d(wide, w), expected)


@pytest.mark.parametrize("shape", [(2, 5, 9), (3, 4, 6)])
def test_average_pooling(shape):
    @jax.vmap
    @kex.kmap(kernel_size=(3, 3), strides=(2, 2))
    def avgpool_2d(x):
        return jnp.mean(x)

    x = random(*shape)
    expected = [loops.kmap(lambda _, window: window.mean(), np.asarray(channel), (3, 3), 2) for channel in x]
    assert_allclose(avgpool_2d(x), expected, rtol=1e-5, atol=1e-6)


def test_scalar_map_of_the_docstring():
    @kex.smap(kernel_size=(2,), relative=True, offset=((2, 0),))
    def F(x):
        return x[0] + x[1]

    assert str(F(jnp.arange(1, 6))) == "[1 2 7 9 5]"
