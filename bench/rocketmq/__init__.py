"""Penstock and RocketMQ side by side, under the load of one Java client. `make bench-rocketmq` prints it."""
