"""The type graph of a Java repository: its types and the references among them."""
