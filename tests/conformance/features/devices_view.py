"""`jax.devices()` is the session's view: dense ids, one process, each device with its island and a host of its own."""

import jax


def run():
    devices = jax.devices()
    return {
        "count": len(devices),
        "ids": [device.id for device in devices],
        "process count": jax.process_count(),
        "all local": jax.local_devices() == devices,
        "platform": sorted({device.platform for device in devices}),
        "slices": sorted({type(device.slice_index).__name__ for device in devices}),
        "islands": len({device.slice_index for device in devices}),
        "hosts": len({device.host_name for device in devices}),
    }


def expected():
    return {
        "count": 2,
        "ids": [0, 1],
        "process count": 1,
        "all local": True,
        "platform": ["cpu"],
        "slices": ["int"],
        "islands": 1,
        "hosts": 2,
    }
