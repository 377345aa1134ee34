"""llama.cpp's own server (package xllamacpp) before a GGUF file, on loopback: python serve_gguf.py FILE PORT [THREADS]

Eight answers at once, each with room for a prompt and 512 tokens. It ends with its process.
"""

import sys
import threading
from pathlib import Path

import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path, settings.model_alias = sys.argv[1], {Path(sys.argv[1]).name}
settings.hostnames, settings.port = ["127.0.0.1"], int(sys.argv[2])
settings.n_parallel, settings.n_ctx = 8, 8 * 1280
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int((sys.argv[3:] or ["2"])[0])
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
threading.Event().wait()
