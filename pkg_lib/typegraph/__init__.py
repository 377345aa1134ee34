"""Type graphs of Java repositories (DKB, Sections 6.3 and C.1): nodes are types, edges injects, extends, implements."""
