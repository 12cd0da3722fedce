"""The site: written pages, and pages computed from the project."""
