// Drives Pulsar's client for Go: produce|refused URL TOPIC COUNT MODE. A line of JSON per message.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const (
	bodyBytes    = 100
	chunkedBytes = 12_000_000
)

var compressed = map[string]pulsar.CompressionType{
	"lz4":    pulsar.LZ4,
	"zlib":   pulsar.ZLib,
	"zstd":   pulsar.ZSTD,
	"snappy": pulsar.SNAPPY,
}

func main() {
	what, url, topic, mode := os.Args[1], os.Args[2], os.Args[3], os.Args[5]
	count, err := strconv.Atoi(os.Args[4])
	must(err)
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: url, Logger: log.NewLoggerWithLogrus(quiet)})
	must(err)
	defer client.Close()
	if what == "produce" {
		produce(client, topic, count, mode)
	} else {
		refused(client, topic)
	}
}

func produce(client pulsar.Client, topic string, count int, mode string) {
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic:           topic,
		DisableBatching: mode == "single" || mode == "chunked",
		EnableChunking:  mode == "chunked",
		CompressionType: compressed[mode],
	})
	must(err)
	defer producer.Close()
	told := make([]pulsar.MessageID, count)
	var waiting sync.WaitGroup
	waiting.Add(count)
	for number := 0; number < count; number++ {
		message := &pulsar.ProducerMessage{
			Payload:    body(number, mode),
			Key:        fmt.Sprintf("k%d", number%3),
			Properties: map[string]string{"n": strconv.Itoa(number)},
		}
		producer.SendAsync(context.Background(), message, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			must(err)
			told[number] = id
			waiting.Done()
		})
	}
	must(producer.Flush())
	waiting.Wait()
	for _, where := range told {
		fmt.Printf("{\"ok\": true, \"ledger\": %d, \"entry\": %d, \"batch\": %d}\n",
			where.LedgerID(), where.EntryID(), where.BatchIdx())
	}
}

func body(number int, mode string) []byte {
	size := bodyBytes
	if mode == "chunked" {
		size = chunkedBytes
	}
	filled := bytes.Repeat([]byte("."), size)
	copy(filled, fmt.Sprintf("m-%d ", number))
	return filled
}

// What a producer is told that comes to a topic that another has for itself.
func refused(client pulsar.Client, topic string) {
	alone, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive,
	})
	must(err)
	defer alone.Close()
	if _, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic}); err != nil {
		fmt.Printf("{\"error\": %q}\n", err.Error())
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
