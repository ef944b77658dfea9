package main

import (
	"context"
	"io"
	"os"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// request asks, as the Java driver does: a line per request, with the body of its reply or the error. It may ask several
// times: until its first heartbeat, which comes when it likes, the broker does not know where replies to this client go.
func request(o options) error {
	sender, err := started(o, "compat-requester-go")
	if err != nil {
		return err
	}
	defer sender.Shutdown()
	timeout := time.Duration(o.numberOr("timeout-ms", 20_000)) * time.Millisecond
	for number, message := range numbered(o) {
		answer, err := sender.Request(context.Background(), timeout, message)
		for tries := 1; err != nil && tries < o.numberOr("tries", 1); tries++ {
			answer, err = sender.Request(context.Background(), timeout, message)
		}
		if err != nil {
			line{"number": number, "error": err.Error()}.print()
			continue
		}
		line{"number": number, "reply": string(answer.Body), "properties": answer.GetProperties()}.print()
	}
	time.Sleep(settle) // the client has the reply before it tells the broker so, and does not wait for that at shutdown
	return nil
}

// reply answers every request with "re: " and its body, until its standard input ends.
func reply(o options) error {
	sender, err := started(o, "compat-replier-go")
	if err != nil {
		return err
	}
	defer sender.Shutdown()
	receiver, err := rocketmq.NewPushConsumer(settings(o)...)
	if err != nil {
		return err
	}
	answer := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			answerOne(ctx, sender, message)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := receiver.Subscribe(o.text("topic"), selector(o), answer); err != nil {
		return err
	}
	if err := receiver.Start(); err != nil {
		return err
	}
	line{"ready": true}.print()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return receiver.Shutdown()
}

func answerOne(ctx context.Context, sender rocketmq.Producer, message *primitive.MessageExt) {
	made, err := consumer.CreateReplyMessage(message, nil)
	if err == nil {
		made.Body = []byte("re: " + string(message.Body)) // this version of the client leaves the body out
		_, err = sender.SendSync(ctx, made)
	}
	told := line{"body": string(message.Body), "status": "SEND_OK"}
	if err != nil {
		told["status"], told["error"] = "REFUSED", err.Error()
	}
	told.print()
}

func started(o options, group string) (rocketmq.Producer, error) {
	sender, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.text("namesrv")})),
		producer.WithGroupName(group),
		producer.WithRetry(0))
	if err != nil {
		return nil, err
	}
	return sender, sender.Start()
}
