"""Ways from the devices' updates to the server's estimate, both halves of each in one file."""
