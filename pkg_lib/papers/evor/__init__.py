"""EVOR (Su et al., 2024): queries and a knowledge base that evolve with execution feedback.

Read `evor_loop.py` first: it is Algorithm 1 line by line. Imports point one way, from the bottom up:

    templates, renaming, execution_feedback      prompts and programs; documents; F
    evor_benchmark                               the base class of the benchmarks (Section 2.4)
    watched_tasks                                the base class of those that accept certain functions
    evor_bench, library_tasks, newlisp,          one benchmark per file
        private_eval, scipy_tasks
    make_library, private_library, new_science   libraries under new names, for four of them
    loop_options                                 where the paper's loop and the stored runs' differ
    evor_methods                                 the methods of the tables
    code_snippets, text_index, knowledge_base    K and R (Section 2.2)
    query_evolution                              q_i by rule (Section 2.1)
    evor_run                                     E, M_q and M_t, and what they have stored
    subgoals                                     ExeDec: subgoals, subprograms, execution (Section 3.1)
    prompt_counts                                what a dry run counts beside programs
    evor_loop                                    one iteration of Algorithm 1
    mpsc                                         the baseline MPSC (Section 3.1)
    evor_registration                            the methods by name
    evor_results, evor_tables, evor_analysis,    what notebooks/evor.ipynb shows
        evor_figures
"""
