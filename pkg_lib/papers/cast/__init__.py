"""cAST (Zhang et al., 2025): chunks along the syntax tree, and functions completed with them.

From the bottom up:

    body_prompts, chunk_retrieval       prompts, retrieved chunks, and the body in an answer
    function_bodies, inside             the benchmarks, their methods, and how bodies are tested
    cast_steps, tracer                  the steps of `cast prepare`
    cast_results                        what is stored
    cast_tables, _figures, _findings    what the notebook shows
"""
