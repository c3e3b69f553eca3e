"""JAX's default random numbers in NumPy: the same bits, and the same draws but for the last digits, with nothing to compile.

Keys are arrays (…, 2) of uint32, as `jax.random.key_data` gives them; functions take many at once, where JAX maps over them.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import erfinv

Keys = NDArray[np.uint32]
Values = NDArray[np.float64]
_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def is_default(key: Any) -> bool:
    """Whether a key is one of JAX's default generator, as it is set today, and holds numbers."""
    if isinstance(key, jax.core.Tracer) or not jax.config.values["jax_threefry_partitionable"]:
        return False
    return jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) and str(jax.random.key_impl(key)) == "threefry2x32"


def data_of(key: Any) -> Keys:
    return np.asarray(jax.random.key_data(key), np.uint32)


def key_of(data: Keys) -> Any:
    """The JAX key (or keys) of these numbers."""
    return jax.random.wrap_key_data(jax.device_put(data), impl="threefry2x32")


def seeded(seed: int, *numbers: int) -> Any:
    """`jax.random.key(seed)` with the numbers folded in one after the other, with nothing to compile."""
    if jax.config.values["jax_default_prng_impl"] != "threefry2x32" or not jax.config.values["jax_threefry_partitionable"]:
        key = jax.random.key(seed)
        for number in numbers:
            key = jax.random.fold_in(key, number)
        return key
    data = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    for number in numbers:
        data = fold_in(data, number)
    return key_of(data)


def folded(key: Any, number: int) -> Any:
    """`jax.random.fold_in`."""
    return key_of(fold_in(data_of(key), number)) if is_default(key) else jax.random.fold_in(key, number)


def divided(key: Any, num: int = 2) -> list[Any]:
    """`jax.random.split` as a list of keys: to take an array of keys apart, JAX compiles something for each length."""
    return [key_of(one) for one in split(data_of(key), num)] if is_default(key) else list(jax.random.split(key, num))


def many(key: Any, num: int) -> Any:
    """`jax.random.split` as an array of keys."""
    return key_of(split(data_of(key), num)) if is_default(key) else jax.random.split(key, num)


@np.errstate(over="ignore")  # of single numbers NumPy would tell; all of it is modulo 2**32
def hashed(keys: Keys, high: Any, low: Any) -> tuple[Keys, Keys]:
    """Threefry-2x32 of a counter in two halves, under each key; shapes are broadcast."""
    first, second = np.asarray(keys[..., 0]), np.asarray(keys[..., 1])
    schedule = (first, second, first ^ second ^ _PARITY)
    a = np.asarray(high, np.uint32) + schedule[0]
    b = np.asarray(low, np.uint32) + schedule[1]
    for i in range(5):
        for turn in _TURNS[i % 2]:
            a = a + b
            b = (b << np.uint32(turn)) | (b >> np.uint32(32 - turn))
            b = a ^ b
        a = a + schedule[(i + 1) % 3]
        b = b + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return a, b


def split(keys: Keys, num: int = 2) -> Keys:
    """(…, 2) → (…, num, 2), as `jax.random.split` of each."""
    return np.stack(hashed(keys[..., None, :], 0, np.arange(num)), axis=-1)


def fold_in(keys: Keys, number: int) -> Keys:
    return np.stack(hashed(keys, 0, number), axis=-1)


def uniform(keys: Keys, shape: tuple[int, ...] = (), low: float = 0.0, high: float = 1.0) -> Values:
    """(…, *shape) uniform numbers in [low, high), as `jax.random.uniform` in float64 of each key."""
    count = int(np.prod(shape))
    a, b = hashed(keys[..., None, :], 0, np.arange(count))
    bits = (a.astype(np.uint64) << np.uint64(32)) | b
    numbers = ((bits >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.0
    return np.maximum(low, numbers * (high - low) + low).reshape(*keys.shape[:-1], *shape)


def normal(keys: Keys, shape: tuple[int, ...] = ()) -> Values:
    return np.sqrt(2.0) * erfinv(uniform(keys, shape, np.nextafter(-1.0, 0.0), 1.0))


def gamma(keys: Keys, shape: Values) -> Values:
    """One Gamma(shape, 1) number for each key: Marsaglia and Tsang's rejection, in the order in which JAX spends keys."""
    keys, shape = keys.reshape(-1, 2), np.broadcast_to(shape, keys.shape[:-1]).ravel()
    boosted = shape < 1.0
    d = np.where(boosted, shape + 1.0, shape) - 1.0 / 3.0
    c = (1.0 / 3.0) / np.sqrt(d)
    pair = split(keys)
    running, own = pair[:, 0], pair[:, 1]
    cubed, left = np.ones(len(d)), np.arange(len(d))
    while len(left):
        triple = split(running[left], 3)
        running[left] = triple[:, 0]
        x, v = _positive(triple[:, 1], c[left])
        u, square, volume = uniform(triple[:, 2]), x * x, v * v * v
        cubed[left] = volume
        with np.errstate(divide="ignore"):
            slow = np.log(u) >= 0.5 * square + d[left] * ((1.0 - volume) + np.log(volume))
        left = left[(u >= 1.0 - 0.0331 * square * square) & slow]
    boost = np.where(boosted, (1.0 - uniform(own)) ** (1.0 / shape), 1.0)
    return d * cubed * boost


def _positive(keys: Keys, c: Values) -> tuple[Values, Values]:
    """Normal x with 1 + cx > 0, and that, for each key."""
    keys, x, v = keys.copy(), np.zeros(len(c)), -np.ones(len(c))
    left = np.arange(len(c))
    while len(left):
        pair = split(keys[left])
        keys[left] = pair[:, 0]
        x[left] = normal(pair[:, 1])
        v[left] = 1.0 + x[left] * c[left]
        left = left[v[left] <= 0.0]
    return x, v
