package main

import (
	"context"
	"io"
	"os"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// settle is how long a listener that has printed its message may take to return: the client does not wait for it at shutdown,
// and would not store the offset of that message.
const settle = 300 * time.Millisecond

var where = map[string]consumer.ConsumeFromWhere{
	"first":     consumer.ConsumeFromFirstOffset,
	"last":      consumer.ConsumeFromLastOffset,
	"timestamp": consumer.ConsumeFromTimestamp,
}

func push(o options) error {
	receiver, err := rocketmq.NewPushConsumer(settings(o)...)
	if err != nil {
		return err
	}
	if err := receiver.Subscribe(o.text("topic"), selector(o), listener(o)); err != nil {
		return err
	}
	if err := receiver.Start(); err != nil {
		return err
	}
	line{"ready": true}.print()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	time.Sleep(settle)
	return receiver.Shutdown()
}

func settings(o options) []consumer.Option {
	chosen := []consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.text("namesrv")})),
		consumer.WithGroupName(o.text("group")),
		consumer.WithConsumeFromWhere(where[o.textOr("from", "first")]),
		consumer.WithConsumerOrder(o.has("orderly")),
		consumer.WithMaxReconsumeTimes(int32(o.numberOr("max-reconsume", -1))),
		consumer.WithSuspendCurrentQueueTimeMillis(100 * time.Millisecond),
	}
	if o.has("since") {
		chosen = append(chosen, consumer.WithConsumeTimestamp(o.text("since")))
	}
	if o.has("instance") {
		chosen = append(chosen, consumer.WithInstance(o.text("instance")))
	}
	if o.has("broadcast") {
		chosen = append(chosen, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if o.has("trace") {
		chosen = append(chosen, consumer.WithTrace(traced(o)))
	}
	return chosen
}

func traced(o options) *primitive.TraceConfig {
	resolver := primitive.NewPassthroughResolver([]string{o.text("namesrv")})
	return &primitive.TraceConfig{Access: primitive.Local, Resolver: resolver}
}

func selector(o options) consumer.MessageSelector {
	if o.has("sql") {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: o.text("sql")}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: o.textOr("tags", "*")}
}

// listener refuses a message as long as it was consumed fewer times than --fail-times says.
func listener(o options) func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	failTimes, retryLevel := int32(o.numberOr("fail-times", 0)), o.numberOr("retry-level", 0)
	return func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result, refusal := consumer.ConsumeSuccess, consumer.ConsumeRetryLater
		if o.has("orderly") {
			refusal = consumer.SuspendCurrentQueueAMoment
		}
		for _, message := range messages {
			printed(message)
			if message.ReconsumeTimes < failTimes {
				result = refusal
			}
		}
		if concurrently, found := primitive.GetConcurrentlyCtx(ctx); found {
			concurrently.DelayLevelWhenNextConsume = retryLevel
		}
		return result, nil
	}
}
