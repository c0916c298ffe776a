"""The paper's tables and figures: a file each, with what is run and what was published."""
