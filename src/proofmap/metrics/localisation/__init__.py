"""Is a map where the thing is? Boxes that people drew, against a map's maximum, its box, its energy; and two things."""
