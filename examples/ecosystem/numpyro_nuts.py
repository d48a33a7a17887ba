"""NumPyro: NUTS samples the posterior of a linear regression, and a guide is fitted to it by variational inference."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

# Two runs on plain local JAX differ by one unit in a loss, and a trajectory carries a difference on.
ULPS_MAX = 64


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    offset = numpyro.sample("offset", dist.Normal(0, 2))
    width = numpyro.sample("width", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(slope * x + offset, width), obs=y)


def run():
    x = jnp.linspace(-1, 1, 20)
    y = 1.5 * x - 0.5 + 0.1 * jax.random.normal(jax.random.key(0), (20,))
    sampler = MCMC(NUTS(model), num_warmup=20, num_samples=20, progress_bar=False)
    sampler.run(jax.random.PRNGKey(1), x, y)
    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
    fitted = svi.run(jax.random.PRNGKey(2), 50, x, y, progress_bar=False)
    return {"samples": sampler.get_samples(), "losses": fitted.losses, "params": fitted.params}


if __name__ == "__main__":
    print(run())
