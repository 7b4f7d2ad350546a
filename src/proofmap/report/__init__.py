"""Results as people read them: tables, pictures, files. Data first, drawing second."""
