"""Ways from the devices' updates to the server's estimate, one file each, both halves in it."""
