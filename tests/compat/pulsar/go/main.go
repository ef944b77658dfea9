// Drives Pulsar's client for Go: a line of JSON in is a command, a line out its answer, as drivers.py says.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const (
	lineBytesMax     = 64 << 20
	operationTimeout = 20 * time.Second
)

type command func(Request) (any, error)

var (
	errUnsupported = errors.New("Unsupported by the client for Go")
	things         = map[int]any{}
	commands       = map[string]command{
		"open":        open,
		"close":       shut,
		"partitions":  partitions,
		"transaction": transaction,
		"producer":    producer,
		"send":        send,
		"there":       there,
		"subscribe":   subscribe,
		"receive":     receive,
		"ack":         ack,
		"ack_until":   ackUntil,
		"nack":        nack,
		"later":       later,
		"seek":        seek,
		"last":        last,
		"unsubscribe": unsubscribe,
		"active":      active,
		"reader":      reader,
		"read":        read,
		"available":   available,
		"reader_seek": readerSeek,
		"table":       table,
		"entries":     entries,
	}
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 1<<20), lineBytesMax)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked Request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := out.Encode(answer(asked)); err != nil {
			os.Exit(1)
		}
	}
}

func answer(asked Request) map[string]any {
	run, found := commands[asked.Do]
	if !found {
		return map[string]any{"error": errUnsupported.Error(), "why": asked.Do}
	}
	told, err := run(asked)
	if err != nil {
		return map[string]any{"error": fmt.Sprintf("%T", err), "why": err.Error()}
	}
	return map[string]any{"ok": told}
}

func open(asked Request) (any, error) {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL:               asked.URL,
		OperationTimeout:  operationTimeout,
		EnableTransaction: asked.Transactions,
		Logger:            log.NewLoggerWithLogrus(quiet),
	})
	if err != nil {
		return nil, err
	}
	things[asked.As] = client
	return true, nil
}

func shut(asked Request) (any, error) {
	things[asked.On].(interface{ Close() }).Close()
	delete(things, asked.On)
	return true, nil
}

func clientOf(asked Request) pulsar.Client {
	return things[asked.On].(pulsar.Client)
}

func partitions(asked Request) (any, error) {
	return clientOf(asked).TopicPartitions(asked.Topic)
}

func transaction(asked Request) (any, error) {
	_, err := clientOf(asked).NewTransaction(time.Minute)
	return true, err
}
