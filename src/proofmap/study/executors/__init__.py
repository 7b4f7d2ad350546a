"""Executors compute the units of a study, in this process or in Ray actors. A unit is one method on one block of images."""
