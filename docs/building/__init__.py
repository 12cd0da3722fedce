"""The site: what people wrote, and what the project computes, as pages."""
