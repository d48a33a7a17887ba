"""A directory for PYTHONPATH: `pathways run` puts it first, and Python imports `sitecustomize` from it before the script."""
