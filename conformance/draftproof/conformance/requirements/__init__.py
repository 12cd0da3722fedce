"""The requirements, in modules for the chapters of the specification that state some."""
