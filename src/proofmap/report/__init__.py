"""Results as people read them: pages, sheets, figures and files. Most modules first make plain data, which is then drawn."""
