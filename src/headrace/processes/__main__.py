"""``python -m headrace.processes``: the standalone server with its defaults, for debugging. People use
``headrace standalone``.
"""

import sys

from headrace.processes.config import StandaloneConfig
from headrace.processes.standalone import run
from headrace.runtime.logs import configure

if __name__ == "__main__":
    configure()
    run(
        StandaloneConfig(
            data_dir=sys.argv[1], ready_file=sys.argv[2], controller_port=0, segmentstore_port=0, rest_port=0
        )
    )
