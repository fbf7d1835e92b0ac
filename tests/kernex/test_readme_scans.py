"""The scan examples of kernex's README and docstrings, as they stand there: only the import is another one.

Expected are the numbers printed there, or those of a loop.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

import stencilx.kernex as kex

plt.switch_backend("agg")


def run(program):
    """The names that a program of the README leaves behind; it says both `kernex.` and `kex.`."""
    names = {"kernex": kex}
    exec(program.replace("import kernex as kex", "import stencilx.kernex as kex"), names)
    return names


@pytest.fixture(autouse=True)
def figures():
    yield
    plt.close("all")


def test_sum_all(capsys):
    run(
        """
import kernex as kex
import jax.numpy as jnp

@kex.kscan(kernel_size=(3,))
def sum_all(x):
    return jnp.sum(x)

x = jnp.array([1,2,3,4,5])
print(sum_all(x))
"""
    )
    assert capsys.readouterr().out == "[ 6 13 22]\n"


LINEAR_CONVECTION = """
import jax
import jax.numpy as jnp
import kernex as kex
import matplotlib.pyplot as plt

# see https://nbviewer.org/github/barbagroup/CFDPython/blob/master/lessons/01_Step_1.ipynb

tmax,xmax = 0.5,2.0
nt,nx = 151,51
dt,dx = tmax/(nt-1) , xmax/(nx-1)
u = jnp.ones([nt,nx])
c = 0.5

# kscan moves sequentially in row-major order and updates in-place using lax.scan.

F = kernex.kscan(
        kernel_size = (3,3),
        padding = ((1,1),(1,1)),
        # n for time axis , i for spatial axis (optional naming)
        named_axis={0:'n',1:'i'},
        relative=True
    )


# boundary condtion as a function
def bc(u):
    return 1

# initial condtion as a function
def ic1(u):
    return 1

def ic2(u):
    return 2

def linear_convection(u):
    return ( u['i','n-1'] - (c*dt/dx) * (u['i','n-1'] - u['i-1','n-1']) )


F[:,0]  = F[:,-1] = bc # assign 1 for left and right boundary for all t

# square wave initial condition
F[:,:int((nx-1)/4)+1] = F[:,int((nx-1)/2):] = ic1
F[0:1, int((nx-1)/4)+1 : int((nx-1)/2)] = ic2

# assign linear convection function for
# interior spatial location [1:-1]
# and start from t>0  [1:]
F[1:,1:-1] = linear_convection

kx_solution = F(jnp.array(u))

plt.figure(figsize=(20,7))
for line in kx_solution[::20]:
    plt.plot(jnp.linspace(0,xmax,nx),line)
"""


def test_linear_convection():
    names = run(LINEAR_CONVECTION)
    F, solution = names["F"], names["kx_solution"]
    nt, nx, c, dt, dx = (names[name] for name in ("nt", "nx", "c", "dt", "dx"))
    expected = np.ones((nt, nx))
    expected[0, 13:25] = 2
    for n in range(1, nt):
        for i in range(1, nx - 1):
            step = c * dt / dx * (expected[n - 1, i] - expected[n - 1, i - 1])
            expected[n, i] = expected[n - 1, i] - step
    assert_allclose(solution, expected, rtol=1e-12)
    assert F.schedule(names["u"]) == "rows"
    assert F.reads(names["u"]) == {"u": [(-1, -1), (-1, 0)]}


RUNGE_KUTTA = """
# lets solve dydt = y, where y0 = 1 and y(t)=e^t
# using Runge-Kutta 4th order method
# f(t,y) = y
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import kernex as kex


t = jnp.linspace(0, 1, 5)
y = jnp.zeros(5)
x = jnp.stack([y, t], axis=0)
dt = t[1] - t[0]  # 0.1
f = lambda tn, yn: yn


def ic(x):
    ''' initial condition y0 = 1 '''
    return 1.


def rk4(x):
    ''' runge kutta 4th order integration step '''
    # ┌────┬────┬────┐      ┌──────┬──────┬──────┐
    # │ y0 │*y1*│ y2 │      │[0,-1]│[0, 0]│[0, 1]│
    # ├────┼────┼────┤ ==>  ├──────┼──────┼──────┤
    # │ t0 │ t1 │ t2 │      │[1,-1]│[1, 0]│[1, 1]│
    # └────┴────┴────┘      └──────┴──────┴──────┘
    t0 = x[1, -1]
    y0 = x[0, -1]
    k1 = dt * f(t0, y0)
    k2 = dt * f(t0 + dt / 2, y0 + 1 / 2 * k1)
    k3 = dt * f(t0 + dt / 2, y0 + 1 / 2 * k2)
    k4 = dt * f(t0 + dt, y0 + k3)
    yn_1 = y0 + 1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return yn_1


F = kex.kscan(kernel_size=(2, 3), relative=True, padding=((0, 1)))  # kernel size = 3

F[0:1, 1:] = rk4
F[0, 0] = ic
# compile the solver
solver = jax.jit(F.__call__)
y = solver(x)[0, :]

plt.plot(t, y, '-o', label='rk4')
plt.plot(t, jnp.exp(t), '-o', label='analytical')
plt.legend()
"""


def runge_kutta(f, times, y):
    """The classical method, step by step."""
    found = [y]
    for t, dt in zip(times, np.diff(times), strict=False):
        k1 = f(t, y)
        k2 = f(t + dt / 2, y + dt / 2 * k1)
        k3 = f(t + dt / 2, y + dt / 2 * k2)
        k4 = f(t + dt, y + dt * k3)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found.append(y)
    return found


def test_runge_kutta():
    names = run(RUNGE_KUTTA)
    assert names["solver"](names["x"]).shape == (1, 5)
    assert_allclose(names["y"], runge_kutta(lambda t, y: y, np.linspace(0, 1, 5), 1.0), rtol=1e-12)
    assert_allclose(names["y"], np.exp(np.linspace(0, 1, 5)), rtol=1e-4)


def test_runge_kutta_where_the_slope_depends_on_time():
    slope = "f = lambda tn, yn: yn"
    assert slope in RUNGE_KUTTA
    names = run(RUNGE_KUTTA.replace(slope, "f = lambda tn, yn: jnp.cos(3 * tn) * yn - tn"))
    expected = runge_kutta(lambda t, y: np.cos(3 * t) * y - t, np.linspace(0, 1, 5), 1.0)
    assert_allclose(names["y"], expected, rtol=1e-12)


def test_scalar_scan_of_the_docstring():
    @kex.sscan(kernel_size=(3,), relative=True, offset=((2, 0),))
    def F(x):
        return x[-1] + x[0] + x[1]

    assert str(F(jnp.arange(1, 6))) == "[ 1  2  9 18 23]"
