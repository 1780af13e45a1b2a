"""The main job, end to end: a year of flights through a stream and a PySpark pipeline, every total checked.

Read ``run`` first; every other module is one step of it.
"""
