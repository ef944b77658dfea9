"""Topics of Pulsar as Spark tables: `service=pulsar://host:port`, a Penstock or a real Pulsar.

Messages come through Pulsar's own client (`pulsar-client`), in the executors. What the driver has to know before that
(partitions, the last message, which topics there are) it asks over the binary protocol itself: the client has no words
for it, or makes topics by asking.
"""
