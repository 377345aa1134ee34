"""What only the paper on Programming Knowledge Graphs needs: its tables and figures."""
