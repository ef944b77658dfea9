package main

import "github.com/apache/pulsar-client-go/pulsar"

// Request is a command with all the fields that there are; each command looks at its own.
type Request struct {
	Do string `json:"do"`
	On int    `json:"on"`
	As int    `json:"as"`

	// clients
	URL          string `json:"url"`
	Transactions bool   `json:"transactions"`

	// producers
	Topic     string    `json:"topic"`
	Schema    *Schema   `json:"schema"`
	Name      string    `json:"name"`
	Batch     bool      `json:"batch"`
	BatchMax  uint      `json:"batch_max"`
	ByKey     bool      `json:"by_key"`
	Chunk     bool      `json:"chunk"`
	Compress  string    `json:"compress"`
	Access    string    `json:"access"`
	Later     bool      `json:"later"`
	PublicKey string    `json:"public_key"`
	Messages  []Message `json:"messages"`

	// consumers and readers
	Topics       []string          `json:"topics"`
	Pattern      string            `json:"pattern"`
	Subscription string            `json:"subscription"`
	Type         string            `json:"type"`
	From         string            `json:"from"`
	Queue        *int              `json:"queue"`
	Priority     int               `json:"priority"`
	BatchAck     bool              `json:"batch_ack"`
	AckReceipt   bool              `json:"ack_receipt"`
	NackMs       *int              `json:"nack_ms"`
	DiscoverS    int               `json:"discover_s"`
	Retry        bool              `json:"retry"`
	Dead         *Dead             `json:"dead"`
	Ranges       []Range           `json:"ranges"`
	AnyOrder     bool              `json:"any_order"`
	PrivateKey   string            `json:"private_key"`
	Properties   map[string]string `json:"properties"`
	Inclusive    bool              `json:"inclusive"`
	Compacted    bool              `json:"compacted"`

	// what they do
	Count   int    `json:"count"`
	WaitMs  int    `json:"wait_ms"`
	Number  int    `json:"number"`
	Numbers []int  `json:"numbers"`
	DelayMs int    `json:"delay_ms"`
	To      string `json:"to"`
	TimeMs  *int64 `json:"time_ms"`
}

// Message is one to be sent.
type Message struct {
	Body           string            `json:"body"`
	BodyBytes      int               `json:"body_bytes"`
	Key            string            `json:"key"`
	OrderingKey    string            `json:"ordering_key"`
	EventMs        int64             `json:"event_ms"`
	Sequence       *int64            `json:"sequence"`
	DeliverAfterMs int64             `json:"deliver_after_ms"`
	Properties     map[string]string `json:"properties"`
}

// Dead says where dead letters go, and after how many redeliveries.
type Dead struct {
	Times        uint32 `json:"times"`
	Topic        string `json:"topic"`
	RetryTopic   string `json:"retry_topic"`
	Subscription string `json:"subscription"`
}

// Schema has the number of its kind, as the protocol has it.
type Schema struct {
	Kind int    `json:"kind"`
	Data string `json:"data"`
}

func (asked *Schema) made() (pulsar.Schema, error) {
	if asked == nil {
		return nil, nil
	}
	return pulsar.NewSchema(pulsar.SchemaType(asked.Kind), []byte(asked.Data), nil)
}

// Range is one of hashes, both ends in it.
type Range struct {
	First int `json:"first"`
	Last  int `json:"last"`
}
