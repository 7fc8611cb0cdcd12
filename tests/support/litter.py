"""A child that leaves a file in its folder for temporary files, says so, and waits or dies.

    python -m tests.support.litter FD

It dies where `LITTER_DIES` is set, without a word.
"""

import os
import pickle
import sys
import tempfile
import time
from multiprocessing.connection import Connection

from vlmopt.engine.protocol import Hello

if __name__ == "__main__":
    handle, path = tempfile.mkstemp(prefix="litter-")
    if "LITTER_DIES" in os.environ:
        os._exit(3)
    Connection(int(sys.argv[1])).send_bytes(pickle.dumps(Hello(path, "0", "cpu")))
    time.sleep(60)
