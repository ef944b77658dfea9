package main

import (
	"strconv"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const (
	filling = "0123456789abcdef"
	lanes   = 3
)

var colours = []string{"blue", "red"}

// numbered makes messages that can be told apart, the same ones as the other drivers: number i of label L has the body "L-i",
// filled up to --body-bytes, the key "key-L-i", the tags in turn, and the properties number=i and colour=blue or red.
func numbered(o options) []*primitive.Message {
	messages := []*primitive.Message{}
	for number := 0; number < o.numberOr("count", 1); number++ {
		messages = append(messages, message(o, number))
	}
	return messages
}

func message(o options, number int) *primitive.Message {
	name := o.textOr("label", "m") + "-" + strconv.Itoa(number)
	made := primitive.NewMessage(o.text("topic"), body(name, o.numberOr("body-bytes", 0)))
	made.WithShardingKey(strconv.Itoa(number % lanes))
	if o.has("tags") {
		tags := strings.Split(o.text("tags"), ",")
		made.WithTag(tags[number%len(tags)])
	}
	if o.has("keys") {
		made.WithKeys([]string{"key-" + name})
	}
	if o.has("properties") {
		made.WithProperty("number", strconv.Itoa(number))
		made.WithProperty("colour", colours[number%2])
	}
	if o.has("delay-level") {
		made.WithDelayTimeLevel(o.numberOr("delay-level", 1))
	}
	return made
}

func body(name string, bytes int) []byte {
	if len(name) < bytes {
		name += " " + strings.Repeat(filling, bytes/len(filling)+1)
		name = name[:bytes]
	}
	return []byte(name)
}

func printed(message *primitive.MessageExt) {
	line{
		"topic":          message.Topic,
		"msgId":          message.MsgId,
		"queueId":        message.Queue.QueueId,
		"queueOffset":    message.QueueOffset,
		"keys":           message.GetKeys(),
		"tags":           message.GetTags(),
		"body":           string(message.Body),
		"reconsumeTimes": message.ReconsumeTimes,
		"bornTimestamp":  message.BornTimestamp,
		"storeTimestamp": message.StoreTimestamp,
		"sysFlag":        message.SysFlag,
		"properties":     message.GetProperties(),
	}.print()
}
