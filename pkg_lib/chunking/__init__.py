"""cAST: source files are cut into chunks along their syntax trees."""
