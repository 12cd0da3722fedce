"""Protocol between Draftproof and adapters: requests, results, and the loading of adapters."""
