"""Topics as Spark tables: a Python data source named `penstock`, and the pipelines that come with it.

Everything here talks to a broker over RocketMQ's protocol, by the wire code that broker and client share: it works on
Penstock and on a RocketMQ cluster, and knows nothing of how either stores what it has.
"""
