"""Values that a recipe derives from a point, once for all engines. Pure; each says what it assumes.

Recipes reach these by name in expressions, so a formula is changed here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from inferometer.errors import InputError

MAX_LIST = 4096
"""The longest list that an expression makes."""
MAX_TEXT = 65_536
"""Characters of a text that an expression makes, and of a list of texts together."""

ACCEPTANCE: Mapping[tuple[str, str], tuple[float | None, ...]] = {
    ("dsv4", "mtp"): (1.79, 2.27, 2.49, 2.54, 2.55, 2.55, 2.54, 2.58),
    ("dsv4", "dspark"): (1.84, 2.51, 3.01, 3.36, 3.61, 3.77, 3.73, 3.47),
    ("dsv41flash", "dspark"): (None, None, None, None, 3.51),
    ("glm5.2", "mtp"): (1.84, 2.50, 2.99, 3.33, 3.61),
    ("kimik3", "dspark"): (1.85, 2.51, 3.00, 3.36, 3.62, 3.75, 3.84, 4.00),
    ("minimaxm3", "eagle3"): (1.79, 2.39, 2.78),
    ("qwen3.5", "mtp"): (1.93, 2.73, 3.39),
}
"""(model prefix, draft method) to the mean tokens a verification emits, by draft length from 1;
None where no measurement is at hand. InferenceX's golden curves: SPEED-Bench coding, 4,096 output
tokens, thinking on, B300 with vLLM.
"""


def next_pow2(n: int) -> int:
    """The smallest power of two that is at least `n` (n >= 1).

    Workload model: engines prepare (capture, compile) batch sizes as powers of two, and a batch is
    padded up to the next one prepared. A cap between two of them buys nothing.
    """
    if type(n) is not int or n < 1:
        raise InputError(f"next_pow2 takes a positive integer, got {n}")
    return int(1 << (n - 1).bit_length())


def sequence_cap(conc: int, fan_out: float) -> int:
    """Sequences the engine must admit at once: ceil(conc * fan_out), with fan_out >= 1.

    Workload model: `conc` lanes. A lane of fixed lengths has one request open, so fan_out is 1. A
    lane of agentic replay holds a session tree whose sub-agents run beside each other, so more than
    `conc` requests are open at times; 2 leaves room for it. With less, requests queue in the
    scheduler and the wait is charged to TTFT.
    """
    if type(conc) is not int or conc < 1:
        raise InputError(f"sequence_cap takes a positive integer conc, got {conc}")
    if fan_out < 1:
        raise InputError(f"sequence_cap takes a fan_out of 1 or more, got {fan_out}")
    return math.ceil(conc * fan_out)


def acceptance_length(model_prefix: str, method: str, draft_tokens: int) -> float:
    """Mean tokens that one verification emits, the bonus token included: from `ACCEPTANCE`.

    Workload model: prompts of random tokens or replayed text leave a draft model without its usual
    success, so a throughput run pins the length to what was measured on real coding prompts. It
    does not depend on concurrency or on the engine.
    """
    curve = ACCEPTANCE.get((model_prefix, method))
    if curve is None:
        raise InputError(f"no acceptance curve for {method!r} drafts of {model_prefix!r}")
    if type(draft_tokens) is not int or not 1 <= draft_tokens <= len(curve):
        raise InputError(
            f"the acceptance curve of {model_prefix} {method} holds draft lengths 1 to "
            f"{len(curve)}, got {draft_tokens}"
        )
    length = curve[draft_tokens - 1]
    if length is None:
        known = ", ".join(str(n) for n, at in enumerate(curve, 1) if at is not None)
        raise InputError(
            f"the acceptance curve of {model_prefix} {method} lacks draft length {draft_tokens}; "
            f"known: {known}"
        )
    return length


def steps(first: int, last: int, step: int) -> tuple[int, ...]:
    """first, first + step, ... up to and including `last` where it is met; empty if first > last.

    Workload model: a decode batch of n sequences with N drafted tokens verifies n * (1 + N) tokens,
    so a graph for every n is a capture list in steps of 1 + N, to the sequence cap times that.
    """
    if any(type(number) is not int for number in (first, last, step)) or step < 1:
        raise InputError(f"steps takes integers and a step of 1 or more, got {first, last, step}")
    return _listed(range(first, last + 1, step))


def pow2_steps(first: int, last: int) -> tuple[int, ...]:
    """The powers of two from `first` to `last`, both included where they are one.

    Workload model: past the sizes that are met often, a batch is padded to the next power of two.
    """
    if type(first) is not int or type(last) is not int or first < 1:
        raise InputError(f"pow2_steps takes integers and a first of 1 or more, got {first, last}")
    power = next_pow2(first)
    return tuple(power << n for n in range(64) if power << n <= last)


def numbered(prefix: str, first: int, count: int) -> str:
    """`prefix` followed by each of `count` numbers from `first`, joined by commas: one address a
    rank. At most 64 of them.
    """
    if type(first) is not int or type(count) is not int or not 1 <= count <= 64:
        raise InputError(f"numbered takes integers and a count of 1 to 64, got {first, count}")
    return ",".join(f"{prefix}{first + index}" for index in range(count))


def each(pattern: str, names: str) -> tuple[str, ...]:
    """The words of `pattern` once for each of `names`, which are joined by commas.

    A `*` stands for the name and `<...>` for a site placeholder, so that
    `each("--decode http://<*_host>:<*_port>", "decode_0,decode_1")` is two words a worker. A
    router is told its workers so.
    """
    words, keys = pattern.split(), [name for name in names.split(",") if name]
    if len(words) * len(keys) > MAX_LIST:
        raise InputError(f"a list has at most {MAX_LIST} words")
    if sum(_placed(word, name) for word in words for name in keys) > MAX_TEXT:
        raise InputError(f"the words of a list have at most {MAX_TEXT} characters together")
    return tuple(place(word, name) for name in keys for word in words)


def place(pattern: str, name: str) -> str:
    """`pattern` with a name for `*` and a site placeholder for `<...>`."""
    if _placed(pattern, name) > MAX_TEXT:
        raise InputError(f"a text has at most {MAX_TEXT} characters")
    return pattern.replace("*", name).replace("<", "{").replace(">", "}")


def _placed(pattern: str, name: str) -> int:
    """Length of what `place` makes."""
    return len(pattern) + pattern.count("*") * (len(name) - 1)


def _listed(numbers: range) -> tuple[int, ...]:
    # len() of a range fails above 2**63; its ends tell as much.
    if numbers and (numbers[-1] - numbers[0]) // numbers.step >= MAX_LIST:
        raise InputError(f"a list has at most {MAX_LIST} numbers")
    return tuple(numbers)
