"""From a task and its context to a solution: prompts, models, completions, extraction."""
