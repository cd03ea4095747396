"""The way from the devices' updates to the server's estimate, the same for everybody who carries a scheme.

One round is a straight line: plan, encode, arrive, settle, decode (:mod:`airfeel.uplink.round`).
"""
