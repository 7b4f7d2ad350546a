"""Runs that are stored: their results, pictures and notes, checks and exports."""
