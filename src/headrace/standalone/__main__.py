"""``python -m headrace.standalone``: the server with its defaults, for debugging. People use ``headrace
standalone``.
"""

import sys

from headrace.runtime.logs import configure
from headrace.standalone.config import StandaloneConfig
from headrace.standalone.server import run

if __name__ == "__main__":
    configure()
    run(
        StandaloneConfig(
            data_dir=sys.argv[1], ready_file=sys.argv[2], controller_port=0, segmentstore_port=0, rest_port=0
        )
    )
