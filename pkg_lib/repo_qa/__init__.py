"""Questions about a repository: three pipelines that gather its code for a model (DKB, Sections 5 and 6), and their measures."""
