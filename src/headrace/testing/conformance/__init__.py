"""Conformance kits: one class per contract, one method per sentence; an implementation subclasses and gives
``make``.
"""
