"""Writes a first study file for a user, and the JSON Schema with which editors check study files."""
