"""Text documents to the nodes PATH and PATHVALUE of the graph."""
