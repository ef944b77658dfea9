package main

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var states = map[string]primitive.LocalTransactionState{
	"commit":   primitive.CommitMessageState,
	"rollback": primitive.RollbackMessageState,
	"unknown":  primitive.UnknowState,
}

// decisions are what becomes of a message, by its number: at first, and when the broker asks.
type decisions struct {
	outcomes, answers []string
}

func (d decisions) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return states[d.outcomes[numberOf(message.Body)%len(d.outcomes)]]
}

func (d decisions) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	answer := d.answers[numberOf(message.Body)%len(d.answers)]
	line{
		"asked":         string(message.Body),
		"answer":        answer,
		"topic":         message.Topic,
		"transactionId": message.TransactionId,
		"times":         message.GetProperty("TRANSACTION_CHECK_TIMES"),
	}.print()
	return states[answer]
}

func numberOf(body []byte) int {
	text := string(body)
	number, err := strconv.Atoi(text[strings.LastIndex(text, "-")+1:])
	if err != nil {
		panic(err)
	}
	return number
}

// transact sends messages in transactions, as the Java driver does, and runs until its standard input ends.
func transact(o options) error {
	decided := decisions{strings.Split(o.textOr("outcomes", "commit"), ","), strings.Split(o.textOr("answers", "commit"), ",")}
	sender, err := rocketmq.NewTransactionProducer(decided,
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.text("namesrv")})),
		producer.WithGroupName(o.text("group")),
		producer.WithRetry(0))
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	line{"ready": true}.print()
	for number, message := range numbered(o) {
		if o.has("immunity-s") {
			message.WithProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", o.text("immunity-s"))
		}
		result, err := sender.SendMessageInTransaction(context.Background(), message)
		if err != nil {
			line{"number": number, "status": "REFUSED", "error": err.Error()}.print()
			continue
		}
		resultLine(number, result.SendResult).print()
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return sender.Shutdown()
}
