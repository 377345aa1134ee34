"""Context-augmented code generation: graph building, retrieval, generation, execution, analysis."""

__version__ = "0.1.0"
