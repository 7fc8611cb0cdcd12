"""Time to first token of the whole CPU engine, stock against fork, both alive and alternating in one run.

    python benchmarks/ttft.py MODEL --fork DIR [--size 640x480 ...] [--json]

Per image size the medians, in milliseconds, from JPEG bytes and prompt text to one generated token; the ratio
is fork over stock. Run it on a model folder with shrunk towers, so that the host's work shows.
"""

from statistics import median
from typing import Any

from common import alternate, arguments, pair, photograph_of, report

from vlmopt.engine.protocol import Error
from vlmopt.engine.worker import ENGINE


def main() -> None:
    options = arguments("Time to first token on the CPU engine, stock against fork.")
    rows: list[dict[str, Any]] = []
    with pair(options, ENGINE) as (workers, prompt):
        for size in options.size:
            request = photograph_of(size, prompt)
            refusal = workers[0].first_token(request)
            if isinstance(refusal, Error):
                rows.append({"size": size, "stock refuses": refusal.message.splitlines()[0][:80]})
                continue
            stock, fork = alternate(workers, lambda worker, r=request: worker.first_token(r), options.rounds)
            times = [1e3 * median(answer.seconds for answer in answers) for answers in (stock, fork)]
            rows.append(
                {
                    "size": size,
                    "tokens": stock[0].tokens,
                    "stock ms": times[0],
                    "fork ms": times[1],
                    "ratio": times[1] / times[0],
                }
            )
    report(options, rows)


if __name__ == "__main__":
    main()
