"""Limits on the size of everything that comes from outside."""

# Files
MAX_FILE_BYTES = 512 * 2**20  # a file that is read whole or row by row, unpacked
MAX_TEXT_BYTES = 64 * 2**20  # a TOML, CSV, YAML or JSON file that is parsed as one text
MAX_ROW_BYTES = 16 * 2**20  # one line of a JSONL file; the longest committed one has 80 KB
MAX_DEPTH = 300  # levels of objects and arrays in a JSON value
MAX_DAMAGED_ROWS = 1000  # damaged lines, after which reading a file stops
MAX_RATIO = 200  # unpacked to packed bytes of a file; the committed ones have up to 63
RATIO_FROM = 4 * 2**20  # unpacked bytes up to which the ratio does not matter

# Responses of servers. What is stored of an answer stays below MAX_ROW_BYTES: JSON takes up to six
# bytes for a byte of text, and four for a token.
MAX_RESPONSE_BYTES = 16 * 2**20  # the body of a response, unpacked, also with embeddings
RESPONSE_BYTES_BASE = 2**20  # of any body (identifiers, padding)
RESPONSE_BYTES_PER_TOKEN = 4096  # for each requested token, since log probabilities are long
# Brackets, braces and commas bound how many values JSON holds. A parsed value takes up to 200
# bytes, far more than its text. A token with 20 log probabilities has about 170 of these
# characters.
MAX_ELEMENTS = 2**20
ELEMENTS_BASE = 2**16
ELEMENTS_PER_TOKEN = 256
MAX_ERROR_ELEMENTS = 10_000  # in the body of an error, of which only the beginning is shown
MAX_PARTS = 10_000  # parts of one message
MAX_ANSWER_BYTES = 2**20  # the text of an answer as UTF-8; also the longest text that is tested
ANSWER_BYTES_BASE = 2**14
ANSWER_BYTES_PER_TOKEN = 64
MAX_ANSWER_TOKENS = 2**17  # new tokens of one answer if the request sets no limit
MAX_LABEL = 200  # characters of an identifier that a server assigns to itself or to an answer
MAX_REFUSAL = 2000  # characters of the text with which a server refuses to answer
MAX_DIMENSIONS = 2**16  # numbers of one embedding
MAX_EMBEDDED_CHARS = 100_000  # characters of a text that is embedded; models use far fewer

# Graph databases
MAX_DATABASE_ROWS = 5_000_000  # records in the answer to one query
MAX_DATABASE_BYTES = 2 * 2**30  # their texts and numbers
