package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

const defaultNackMs = 100

var (
	kinds = map[string]pulsar.SubscriptionType{
		"":           pulsar.Exclusive,
		"Exclusive":  pulsar.Exclusive,
		"Shared":     pulsar.Shared,
		"Failover":   pulsar.Failover,
		"Key_Shared": pulsar.KeyShared,
	}
	positions = map[string]pulsar.SubscriptionInitialPosition{
		"":         pulsar.SubscriptionPositionLatest,
		"Latest":   pulsar.SubscriptionPositionLatest,
		"Earliest": pulsar.SubscriptionPositionEarliest,
	}
	listeners = map[int]*listener{}
)

func subscribe(asked Request) (any, error) {
	if asked.Priority != 0 {
		return nil, errUnsupported
	}
	schema, err := asked.Schema.made()
	if err != nil {
		return nil, err
	}
	heard := &listener{told: [][]any{}}
	options := pulsar.ConsumerOptions{
		Schema:                         schema,
		Topics:                         asked.Topics,
		TopicsPattern:                  asked.Pattern,
		SubscriptionName:               asked.Subscription,
		Name:                           asked.Name,
		Properties:                     asked.Properties,
		Type:                           kinds[asked.Type],
		SubscriptionInitialPosition:    positions[asked.From],
		EventListener:                  heard,
		EnableBatchIndexAcknowledgment: asked.BatchAck,
		AckWithResponse:                asked.AckReceipt,
		AckGroupingOptions:             &pulsar.AckGroupingOptions{MaxSize: 1},
		NackRedeliveryDelay:            nackDelay(asked),
		AutoDiscoveryPeriod:            time.Duration(asked.DiscoverS) * time.Second,
		RetryEnable:                    asked.Retry,
		DLQ:                            dead(asked),
		ReadCompacted:                  asked.Compacted,
	}
	if asked.Queue != nil {
		options.ReceiverQueueSize = *asked.Queue
		options.EnableZeroQueueConsumer = *asked.Queue == 0
	}
	if asked.PrivateKey != "" {
		reader := crypto.NewFileKeyReader(asked.PublicKey, asked.PrivateKey)
		options.Decryption = &pulsar.MessageDecryptionInfo{KeyReader: reader}
	}
	if asked.Ranges != nil {
		policy, err := sticky(asked.Ranges)
		if err != nil {
			return nil, err
		}
		options.KeySharedPolicy = policy
	}
	if asked.AnyOrder {
		options.KeySharedPolicy = &pulsar.KeySharedPolicy{AllowOutOfOrderDelivery: true}
	}
	made, err := clientOf(asked).Subscribe(options)
	if err != nil {
		return nil, err
	}
	things[asked.As], listeners[asked.As] = made, heard
	return true, nil
}

func nackDelay(asked Request) time.Duration {
	delayMs := defaultNackMs
	if asked.NackMs != nil {
		delayMs = *asked.NackMs
	}
	return time.Duration(delayMs) * time.Millisecond
}

// This client counts deliveries where the others count redeliveries; but not of what goes through the retry topic.
func dead(asked Request) *pulsar.DLQPolicy {
	if asked.Dead == nil {
		return nil
	}
	deliveries := asked.Dead.Times
	if !asked.Retry {
		deliveries++
	}
	return &pulsar.DLQPolicy{
		MaxDeliveries:           deliveries,
		DeadLetterTopic:         asked.Dead.Topic,
		RetryLetterTopic:        asked.Dead.RetryTopic,
		InitialSubscriptionName: asked.Dead.Subscription,
	}
}

func sticky(ranges []Range) (*pulsar.KeySharedPolicy, error) {
	var ends []int
	for _, each := range ranges {
		ends = append(ends, each.First, each.Last)
	}
	return pulsar.NewKeySharedPolicySticky(ends)
}

func consumerOf(asked Request) pulsar.Consumer {
	return things[asked.On].(pulsar.Consumer)
}

// So many, or those that came before nothing came for a while.
func receive(asked Request) (any, error) {
	return collect(asked, consumerOf(asked).Receive)
}

func collect(asked Request, next func(context.Context) (pulsar.Message, error)) (any, error) {
	got := []map[string]any{}
	for len(got) < asked.Count {
		within, cancel := context.WithTimeout(context.Background(), time.Duration(asked.WaitMs)*time.Millisecond)
		message, err := next(within)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return got, nil
		}
		if err != nil {
			return nil, err
		}
		got = append(got, take(message))
	}
	return got, nil
}

func ack(asked Request) (any, error) {
	for _, number := range asked.Numbers {
		if err := consumerOf(asked).Ack(kept[number]); err != nil {
			return nil, err
		}
	}
	return true, nil
}

func ackUntil(asked Request) (any, error) {
	return true, consumerOf(asked).AckCumulative(kept[asked.Number])
}

func nack(asked Request) (any, error) {
	for _, number := range asked.Numbers {
		consumerOf(asked).Nack(kept[number])
	}
	return true, nil
}

func later(asked Request) (any, error) {
	consumerOf(asked).ReconsumeLater(kept[asked.Number], time.Duration(asked.DelayMs)*time.Millisecond)
	return true, nil
}

func seek(asked Request) (any, error) {
	if asked.TimeMs != nil {
		return true, consumerOf(asked).SeekByTime(time.UnixMilli(*asked.TimeMs))
	}
	return true, consumerOf(asked).Seek(sought(asked))
}

func last(asked Request) (any, error) {
	ids, err := consumerOf(asked).GetLastMessageIDs()
	told := []map[string]any{}
	for _, id := range ids {
		told = append(told, place(id))
	}
	return told, err
}

func unsubscribe(asked Request) (any, error) {
	return true, consumerOf(asked).Unsubscribe()
}

// Keeps what a consumer hears of being active.
type listener struct {
	sync.Mutex
	told [][]any
}

func (heard *listener) BecameActive(_ pulsar.Consumer, _ string, partition int32) {
	heard.add(partition, true)
}

func (heard *listener) BecameInactive(_ pulsar.Consumer, _ string, partition int32) {
	heard.add(partition, false)
}

func (heard *listener) add(partition int32, active bool) {
	heard.Lock()
	defer heard.Unlock()
	heard.told = append(heard.told, []any{partition, active})
}

func active(asked Request) (any, error) {
	heard := listeners[asked.On]
	heard.Lock()
	defer heard.Unlock()
	return append([][]any{}, heard.told...), nil
}
