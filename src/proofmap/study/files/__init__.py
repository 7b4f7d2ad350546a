"""Study files that are written for a user, and their schema for editors."""
