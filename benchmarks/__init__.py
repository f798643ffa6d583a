"""Measurements. A package, so that no other one of that name, which a peer may bring along, is found instead."""
