"""The example of the Pathways paper, Figure 2, as printed there; traced, untraced, and what the trace looks like."""

import jax
import numpy
import pathways as pw

pw.connect()


def get_devices(n):
    device_set = pw.make_virtual_device_set()
    return device_set.add_slice(tpu_devices=n).tpus


a = jax.pmap(lambda x: x * 2.0, devices=get_devices(2))
b = jax.pmap(lambda x: x + 1.0, devices=get_devices(2))
c = jax.pmap(lambda x: x / 2.0, devices=get_devices(2))


def untraced(v):
    x = a(v)
    y = b(x)
    z = a(c(x))
    return (y, z)


f = pw.program(untraced)

print([value.tolist() for value in untraced(numpy.array([1.0, 2.0]))])
print([value.tolist() for value in f(numpy.array([1.0, 2.0]))])
print([value.tolist() for value in f(numpy.array([4.0, 8.0]))])
print(all(isinstance(value, jax.Array) for value in f(numpy.array([1.0, 2.0]))), len(f.graph.nodes))
