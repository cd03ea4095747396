"""The air between devices and server: power and energy, links, and channels."""
