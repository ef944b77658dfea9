package main

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

const batchDelay = 20 * time.Millisecond

var (
	compressed = map[string]pulsar.CompressionType{
		"":       pulsar.NoCompression,
		"lz4":    pulsar.LZ4,
		"zlib":   pulsar.ZLib,
		"zstd":   pulsar.ZSTD,
		"snappy": pulsar.SNAPPY,
	}
	accessModes = map[string]pulsar.ProducerAccessMode{
		"":                 pulsar.ProducerAccessModeShared,
		"Shared":           pulsar.ProducerAccessModeShared,
		"Exclusive":        pulsar.ProducerAccessModeExclusive,
		"WaitForExclusive": pulsar.ProducerAccessModeWaitForExclusive,
	}
)

func producer(asked Request) (any, error) {
	schema, err := asked.Schema.made()
	if err != nil {
		return nil, err
	}
	options := pulsar.ProducerOptions{
		Topic:                   asked.Topic,
		Schema:                  schema,
		Name:                    asked.Name,
		DisableBatching:         !asked.Batch,
		BatchingMaxMessages:     asked.BatchMax,
		BatchingMaxPublishDelay: batchDelay,
		EnableChunking:          asked.Chunk,
		CompressionType:         compressed[asked.Compress],
		ProducerAccessMode:      accessModes[asked.Access],
	}
	if asked.ByKey {
		options.BatcherBuilderType = pulsar.KeyBasedBatchBuilder
	}
	if asked.PublicKey != "" {
		options.Encryption = &pulsar.ProducerEncryptionInfo{
			KeyReader: crypto.NewFileKeyReader(asked.PublicKey, asked.PrivateKey),
			Keys:      []string{"key"},
		}
	}
	if asked.Later {
		making := &pending{done: make(chan struct{})}
		client := clientOf(asked)
		go func() {
			making.made, making.err = client.CreateProducer(options)
			close(making.done)
		}()
		things[asked.As] = making
		return true, nil
	}
	made, err := clientOf(asked).CreateProducer(options)
	if err != nil {
		return nil, err
	}
	things[asked.As] = made
	return true, nil
}

// A producer that is made later.
type pending struct {
	done chan struct{}
	made pulsar.Producer
	err  error
}

// Whether one that is made later is there; from then on it is a producer like any other.
func there(asked Request) (any, error) {
	making := things[asked.On].(*pending)
	select {
	case <-making.done:
		if making.err == nil {
			things[asked.On] = making.made
		}
		return true, making.err
	default:
		return false, nil
	}
}

func send(asked Request) (any, error) {
	from := things[asked.On].(pulsar.Producer)
	ids, failures := make([]pulsar.MessageID, len(asked.Messages)), make([]error, len(asked.Messages))
	var waiting sync.WaitGroup
	waiting.Add(len(asked.Messages))
	for at, message := range asked.Messages {
		from.SendAsync(context.Background(), made(message), func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			ids[at], failures[at] = id, err
			waiting.Done()
		})
	}
	if err := from.Flush(); err != nil {
		return nil, err
	}
	waiting.Wait()
	told := []map[string]any{}
	for at, id := range ids {
		if failures[at] != nil {
			return nil, failures[at]
		}
		told = append(told, place(id))
	}
	return told, nil
}

func made(message Message) *pulsar.ProducerMessage {
	body := []byte(message.Body)
	if missing := message.BodyBytes - len(body); missing > 0 {
		body = append(body, bytes.Repeat([]byte("."), missing)...)
	}
	made := &pulsar.ProducerMessage{
		Payload:      body,
		Key:          message.Key,
		OrderingKey:  message.OrderingKey,
		Properties:   message.Properties,
		SequenceID:   message.Sequence,
		DeliverAfter: time.Duration(message.DeliverAfterMs) * time.Millisecond,
	}
	if message.EventMs != 0 {
		made.EventTime = time.UnixMilli(message.EventMs)
	}
	return made
}
