"""Serve a GGUF file on loopback with llama.cpp's own server (package xllamacpp).

    python tests/benchmarks/serve_gguf.py FILE PORT [THREADS]

The server generates eight answers at once. Each has room for a prompt and 512 tokens. The server ends with its
process.
"""

import sys
import threading
from pathlib import Path

import xllamacpp

ANSWERS_AT_ONCE = 8
TOKENS_PER_ANSWER = 1280  # the prompt and 512 new tokens

file = sys.argv[1]
port = int(sys.argv[2])
threads = int(sys.argv[3]) if len(sys.argv) > 3 else 2

settings = xllamacpp.CommonParams()
settings.model.path = file
settings.model_alias = {Path(file).name}
settings.hostnames = ["127.0.0.1"]
settings.port = port
settings.n_parallel = ANSWERS_AT_ONCE
settings.n_ctx = ANSWERS_AT_ONCE * TOKENS_PER_ANSWER
settings.cpuparams.n_threads = threads
settings.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
threading.Event().wait()
