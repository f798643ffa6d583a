"""XXH3-64 of stored bytes, bit-equal to the xxhash library's ``xxh3_64`` with seed 0.

Stored units are whole 8-byte words. What is shorter than 248 bytes counts as followed by zeros up to that, so that the algorithm's
long form is enough.
Source: the XXH3 specification and its default secret (Yann Collet, xxHash).
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel

u = np.uint64
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def _secret_words(offset: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.frombuffer(_SECRET, np.uint8)[offset : offset + 8 * count].copy().view(np.uint64)


#: The secret's words at the byte offsets that the algorithm reads: 0 (stripes), 121 (the last stripe) and 11 (the end).
SECRET = np.concatenate([_secret_words(0, 24), _secret_words(121, 8), _secret_words(11, 8)])
SCRAMBLE, LAST, MERGE = u(16), 24, u(32)
PRIME_1, PRIME_2, PRIME_3 = u(0x9E3779B185EBCA87), u(0xC2B2AE3D27D4EB4F), u(0x165667B19E3779F9)
PRIME_4, PRIME_5 = u(0x85EBCA77C2B2AE63), u(0x27D4EB2F165667C5)
PRIME32_1, PRIME32_2, PRIME32_3 = u(0x9E3779B1), u(0x85EBCA77), u(0xC2B2AE3D)
START = np.array([PRIME32_3, PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME32_2, PRIME_5, PRIME32_1], np.uint64)
LOW = u(0xFFFFFFFF)
ZERO, ONE, TWO, EIGHT = u(0), u(1), u(2), u(8)
HALF, SCRAMBLE_SHIFT, END_SHIFT, END_PRIME = u(32), u(47), u(37), u(0x165667919E3779F9)
#: Fewest words that the long form takes, and the length of its state.
WORDS_MIN, STATE = 31, 8


@kernel("(u64[in], i64, i64, u64[out]) -> u64")
def stored_checksum(words, at, count, state):
    """Checksum of the stored unit of ``count`` words from ``at``; ``state`` is scratch of eight words."""
    for i in range(EIGHT):
        state[i] = START[i]
    length = u(count)
    start = u(at)
    total = count if count > WORDS_MIN else WORDS_MIN
    stripes = (total - 1) >> 3
    for stripe in range(stripes + 1):
        last = stripe == stripes
        p = u(total - 8 if last else 8 * stripe)
        s = u(LAST if last else stripe & 15)
        for i in range(EIGHT):
            word = words[start + p + i] if p + i < length else ZERO
            keyed = word ^ SECRET[s + i]
            state[i ^ ONE] += word
            state[i] += (keyed & LOW) * (keyed >> HALF)
        if stripe & 15 == 15 and not last:
            for i in range(EIGHT):
                state[i] = (state[i] ^ (state[i] >> SCRAMBLE_SHIFT) ^ SECRET[SCRAMBLE + i]) * PRIME32_1
    h = u(8 * total) * PRIME_1
    for i in range(ZERO, EIGHT, TWO):
        a = state[i] ^ SECRET[MERGE + i]
        b = state[i + ONE] ^ SECRET[MERGE + i + ONE]
        low = (a & LOW) * (b & LOW)
        left = (a >> HALF) * (b & LOW)
        cross = (low >> HALF) + (left & LOW) + (a & LOW) * (b >> HALF)
        h += ((cross << HALF) | (low & LOW)) ^ ((left >> HALF) + (cross >> HALF) + (a >> HALF) * (b >> HALF))
    h = (h ^ (h >> END_SHIFT)) * END_PRIME
    return h ^ (h >> HALF)
