"""The host's cost of one image request, stock against fork, alternating in one run on one thread each.

    python benchmarks/host.py MODEL --fork DIR [--size 640x480 ...] [--json]

Per image size the medians, in milliseconds, of opening the JPEG and of vLLM's processor call, and the bytes
(MB) that leave for the engine process; ratios are fork over stock.
"""

from statistics import median
from typing import Any

from common import alternate, arguments, pair, photograph_of, report

from vlmopt.engine.worker import PROCESSORS


def main() -> None:
    options = arguments("The host's cost of one image request, stock against fork.")
    rows: list[dict[str, Any]] = []
    with pair(options, PROCESSORS) as (workers, prompt):
        for size in options.size:
            request = photograph_of(size, prompt)
            stock, fork = alternate(workers, lambda worker, r=request: worker.time(r), options.rounds)
            processor = [1e3 * median(t.processor_s for t in timings) for timings in (stock, fork)]
            rows.append(
                {
                    "size": size,
                    "tokens": stock[0].tokens,
                    "decode stock ms": 1e3 * median(t.decode_s for t in stock),
                    "decode fork ms": 1e3 * median(t.decode_s for t in fork),
                    "processor stock ms": processor[0],
                    "processor fork ms": processor[1],
                    "ratio": processor[1] / processor[0],
                    "sent stock MB": stock[0].sent / 1e6,
                    "sent fork MB": fork[0].sent / 1e6,
                    "sent ratio": fork[0].sent / stock[0].sent,
                }
            )
    report(options, rows)


if __name__ == "__main__":
    main()
