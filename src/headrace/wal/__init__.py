"""Tier 1: the write-ahead logs. ``contract`` says what one of them promises, ``logs`` what those of a system
do, and ``stores`` makes these.
"""
