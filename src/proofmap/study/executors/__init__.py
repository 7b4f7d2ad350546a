"""Where the units of a study are computed: in this process, or by Ray actors."""
