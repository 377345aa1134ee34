"""Sizes beyond which nothing that comes from outside is taken in."""

MAX_FILE_BYTES = 512 * 2**20  # a file that is read whole or row by row, unpacked
MAX_TEXT_BYTES = 64 * 2**20  # a TOML, CSV, YAML or JSON file that is parsed as one text
MAX_ROW_BYTES = 16 * 2**20  # one line of a JSONL file; the longest committed one has 80 KB
MAX_DEPTH = 300  # levels of objects and arrays in a JSON value
MAX_DAMAGED_ROWS = 1000  # damaged lines in one file, after which it is given up
MAX_RATIO = 200  # how many times its packed size a file may have; the committed ones have up to 63
RATIO_FROM = 4 * 2**20  # unpacked bytes up to which the ratio does not matter
