"""The protocol: requests to adapters, their results, and the loading of adapters."""
