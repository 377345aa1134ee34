"""The prompts of Appendix B (Listings 4 to 7).

The PDF's spaces around punctuation are taken out; it shows no indentation, so that of the schema is ours.

The paper's text of LLM-KB names Gemini; it is kept, whatever model made the graph.
"""

from __future__ import annotations

import re

NO_GRAPH = """\
You are a Senior Java Engineer. Answer based on the code provided.

Context:
{context}

Question: {question}
"""
DKB = """\
You are a Senior Java Engineer. Answer based on the code provided.
Use the [ONTOLOGY INFO] to understand the architecture.

Context:
{context}

Question: {question}
"""
LLM_KB = """\
You are a Senior Java Architect. Answer the question based on the provided Code Context.
The context includes the main classes found via vector search, AND their dependencies from the Gemini-generated Knowledge Graph.

Context:
{context}

Question: {question}
"""
EXTRACTION = """\
You are a static code analyzer. Analyze the provided batch of Java files.
For EACH file, identify the Class Name and any Custom Dependencies (other classes in the project that are used).
Ignore standard libraries (java.*, spring framework, etc.).

Return a JSON object with a single key "results" containing a list of objects, one for each file.

Schema:
{
  "results": [
    {
      "file_path": "path/to/File.java",
      "class_name": "NameOfClass",
      "dependencies": ["OtherClass1", "OtherClass2"]
    }
  ]
}

Input Files:
{batch_content}
"""


_PLACE = re.compile(r"\{(context|question|batch_content)\}")


def fill(template: str, **values: str) -> str:
    """The template with its values; any other brace, in the template or in a value, stays as it is."""
    return _PLACE.sub(lambda place: values[place[1]], template)
