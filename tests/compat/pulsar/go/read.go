package main

import (
	"reflect"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func reader(asked Request) (any, error) {
	made, err := clientOf(asked).CreateReader(pulsar.ReaderOptions{
		Topic:                   asked.Topic,
		StartMessageID:          position(asked),
		StartMessageIDInclusive: asked.Inclusive,
		ReadCompacted:           asked.Compacted,
	})
	if err != nil {
		return nil, err
	}
	things[asked.As] = made
	return true, nil
}

func readerOf(asked Request) pulsar.Reader {
	return things[asked.On].(pulsar.Reader)
}

func read(asked Request) (any, error) {
	return collect(asked, readerOf(asked).Next)
}

func available(asked Request) (any, error) {
	return readerOf(asked).HasNext(), nil
}

func readerSeek(asked Request) (any, error) {
	if asked.TimeMs != nil {
		return true, readerOf(asked).SeekByTime(time.UnixMilli(*asked.TimeMs))
	}
	return true, readerOf(asked).Seek(sought(asked))
}

func table(asked Request) (any, error) {
	made, err := clientOf(asked).CreateTableView(pulsar.TableViewOptions{
		Topic:           asked.Topic,
		Schema:          pulsar.NewStringSchema(nil),
		SchemaValueType: reflect.TypeOf((*string)(nil)), // what it decodes to
	})
	if err != nil {
		return nil, err
	}
	things[asked.As] = made
	return true, nil
}

func entries(asked Request) (any, error) {
	found := map[string]string{}
	err := things[asked.On].(pulsar.TableView).ForEach(func(key string, value any) error {
		found[key] = *value.(*string)
		return nil
	})
	return found, err
}
