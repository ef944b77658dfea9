package main

import (
	"encoding/hex"
	"hash/crc32"

	"github.com/apache/pulsar-client-go/pulsar"
)

const shownBytes = 200

// What was received, so that a test can name it by its number.
var kept []pulsar.Message

func take(message pulsar.Message) map[string]any {
	body := message.Payload()
	told := place(message.ID())
	told["number"] = len(kept)
	told["body"] = string(body[:min(len(body), shownBytes)])
	told["bytes"] = len(body)
	told["crc"] = crc32.ChecksumIEEE(body)
	told["key"] = message.Key()
	told["ordering_key"] = message.OrderingKey()
	told["properties"] = message.Properties()
	told["redelivered"] = message.RedeliveryCount()
	told["topic"] = message.Topic()
	told["publish_ms"] = message.PublishTime().UnixMilli()
	told["schema"] = hex.EncodeToString(message.SchemaVersion())
	told["event_ms"] = message.EventTime().UnixMilli()
	kept = append(kept, message)
	return told
}

func place(id pulsar.MessageID) map[string]any {
	return map[string]any{
		"ledger":    id.LedgerID(),
		"entry":     id.EntryID(),
		"batch":     id.BatchIdx(),
		"partition": id.PartitionIdx(),
	}
}

// Where a request says: at an end, or at a message that was received.
func position(asked Request) pulsar.MessageID {
	switch asked.To {
	case "earliest":
		return pulsar.EarliestMessageID()
	case "latest":
		return pulsar.LatestMessageID()
	}
	return kept[asked.Number].ID()
}

// Where to seek. The ends have to be those of a partition: this client takes no others.
func sought(asked Request) pulsar.MessageID {
	where := position(asked)
	if asked.To == "" {
		return where
	}
	return pulsar.NewMessageID(where.LedgerID(), where.EntryID(), where.BatchIdx(), 0)
}
