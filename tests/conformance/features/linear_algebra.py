"""Library calls of the CPU backend: factorisations, eigenvalues, solves; nothing there crashes an executor."""

import jax
import jax.numpy as jnp


def run():
    matrix = jnp.arange(16.0).reshape(4, 4) + 10 * jnp.eye(4)
    symmetric = matrix @ matrix.T
    return {
        "cholesky": jnp.linalg.cholesky(symmetric),
        "qr": jnp.linalg.qr(matrix),
        "svd": jnp.linalg.svd(matrix, compute_uv=False),
        "eigh": jnp.linalg.eigh(symmetric),
        "solve": jax.jit(jnp.linalg.solve)(matrix, jnp.ones(4)),
        "inverse": jnp.linalg.inv(matrix),
        "fft": jnp.fft.fft(jnp.arange(8.0)),
        "sort": jnp.sort(jnp.array([3, 1, 2])),
        "top": jax.lax.top_k(jnp.array([3.0, 1.0, 2.0]), 2),
        "convolution": jax.lax.conv(jnp.ones((1, 1, 5, 5)), jnp.arange(9.0).reshape(1, 1, 3, 3), (1, 1), "SAME"),
    }
