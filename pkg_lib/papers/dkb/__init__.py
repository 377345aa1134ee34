"""DKB (Chinthareddy, 2026): answers about a Java repository from chunks and a type graph.

From the bottom up:

    splitter, pipelines, llm_kb         chunks, the contexts of a question, and a model's graph
    repository_study, question_tasks    a repository with its questions, and as a benchmark
    measurement                         times, and whether the needed types reach a context
    number_tables, indexing_tables,     what the notebook shows
    evidence_tables, dkb_figures
"""
