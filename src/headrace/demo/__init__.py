"""The main job, end to end: a year of flights through a stream and a PySpark pipeline, every total checked.

Start reading at ``run``; every other module is one step of it.
"""
