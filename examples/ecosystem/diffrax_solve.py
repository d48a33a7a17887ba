"""Diffrax: an oscillator with an adaptive solver, the gradient through it, and a stochastic equation, many paths at once."""

import diffrax
import jax
import jax.numpy as jnp


def oscillator(t, y, frequency):
    position, speed = y
    return jnp.stack([speed, -(frequency**2) * position])


def solve(frequency):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(oscillator),
        diffrax.Tsit5(),
        t0=0.0,
        t1=2.0,
        dt0=0.1,
        y0=jnp.array([1.0, 0.0]),
        args=frequency,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 2, 5)),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
    )


def path(key):
    noise = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, args: -y), diffrax.ControlTerm(lambda t, y, args: 0.1 * jnp.ones(()), noise)
    )
    return diffrax.diffeqsolve(terms, diffrax.Euler(), t0=0.0, t1=1.0, dt0=0.1, y0=jnp.array(1.0)).ys


def run():
    solution = jax.jit(solve)(jnp.array(2.0))
    gradient = jax.jit(jax.grad(lambda frequency: solve(frequency).ys[-1, 0]))(jnp.array(2.0))
    paths = jax.jit(jax.vmap(path))(jax.random.split(jax.random.key(0), 4))
    return {"ys": solution.ys, "steps": solution.stats["num_steps"], "gradient": gradient, "paths": paths}


if __name__ == "__main__":
    print(run())
