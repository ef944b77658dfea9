package main

import (
	"context"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	sendTimeout = 10 * time.Second
	traceWait   = time.Second // traces are sent aside, a moment late; what is not out by shutdown is lost
)

var modes = map[string]func(rocketmq.Producer, []*primitive.Message, options) error{
	"sync":    sendSync,
	"async":   sendAsync,
	"oneway":  sendOneway,
	"batch":   sendBatch,
	"ordered": sendSync, // the selector takes the queue by the sharding key
}

var statuses = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	primitive.SendUnknownError:      "REFUSED",
}

func produce(o options) error {
	settings := []producer.Option{
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.text("namesrv")})),
		producer.WithGroupName(o.textOr("group", "compat-producer-go")),
		producer.WithSendMsgTimeout(sendTimeout),
		producer.WithRetry(0), // one message sent is one message stored
	}
	if o.textOr("mode", "") == "ordered" {
		settings = append(settings, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	}
	if o.has("compress-over-bytes") {
		settings = append(settings, producer.WithCompressMsgBodyOverHowmuch(o.numberOr("compress-over-bytes", 0)))
	}
	if o.has("trace") {
		settings = append(settings, producer.WithTrace(traced(o)))
	}
	sender, err := rocketmq.NewProducer(settings...)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	defer sender.Shutdown()
	err = modes[o.textOr("mode", "sync")](sender, numbered(o), o)
	if o.has("trace") {
		time.Sleep(traceWait)
	}
	return err
}

func sendSync(sender rocketmq.Producer, messages []*primitive.Message, _ options) error {
	for number, message := range messages {
		result, err := sender.SendSync(context.Background(), message)
		answered(number, result, err)
	}
	return nil
}

func sendAsync(sender rocketmq.Producer, messages []*primitive.Message, _ options) error {
	var open sync.WaitGroup
	for number, message := range messages {
		open.Add(1)
		answer := func(_ context.Context, result *primitive.SendResult, err error) {
			answered(number, result, err)
			open.Done()
		}
		if err := sender.SendAsync(context.Background(), answer, message); err != nil {
			return err
		}
	}
	open.Wait()
	return nil
}

func sendOneway(sender rocketmq.Producer, messages []*primitive.Message, _ options) error {
	for number, message := range messages {
		if err := sender.SendOneWay(context.Background(), message); err != nil {
			return err
		}
		line{"number": number, "status": "ONEWAY"}.print()
	}
	time.Sleep(time.Second) // the client writes these aside and tells nobody when; what is not out by shutdown is lost
	return nil
}

func sendBatch(sender rocketmq.Producer, messages []*primitive.Message, o options) error {
	most := o.numberOr("batch", 10)
	for from := 0; from < len(messages); from += most {
		some := messages[from:min(from+most, len(messages))]
		result, err := sender.SendSync(context.Background(), some...)
		if err != nil {
			return err
		}
		batchAnswered(from, result)
	}
	return nil
}

func answered(number int, result *primitive.SendResult, err error) {
	if err != nil {
		line{"number": number, "status": "REFUSED", "error": err.Error()}.print()
		return
	}
	resultLine(number, result).print()
}

// batchAnswered takes the one answer of a batch apart: ids joined by commas, and the offset of the first.
func batchAnswered(from int, result *primitive.SendResult) {
	for index, offsetMsgID := range strings.Split(result.OffsetMsgID, ",") {
		one := resultLine(from+index, result)
		one["offsetMsgId"] = offsetMsgID
		one["queueOffset"] = result.QueueOffset + int64(index)
		if ids := strings.Split(result.MsgID, ","); index < len(ids) {
			one["msgId"] = ids[index]
		}
		one.print()
	}
}

func resultLine(number int, result *primitive.SendResult) line {
	return line{
		"number":      number,
		"msgId":       result.MsgID,
		"offsetMsgId": result.OffsetMsgID,
		"queueId":     result.MessageQueue.QueueId,
		"queueOffset": result.QueueOffset,
		"status":      statuses[result.Status],
	}
}
