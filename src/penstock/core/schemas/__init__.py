"""Schemas of topics: what is registered, and what may follow what.

model.py          a schema and its kind; pairs.py: two in one
avro.py           Avro's schemas, from JSON to nodes
resolution.py     whether one of them can read what was written with another
defaults.py       whether a default value is one
compatibility.py  whether a schema is one, and what a strategy allows, for every kind
registry.py       the versions of each topic

Which strategy holds for a topic is a policy (`core/policies.py`).
"""
