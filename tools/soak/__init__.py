"""Many mixed requests at a server that is run here, with faults or without."""
