"""Requirements, in a module for each chapter of the specification that states some."""
