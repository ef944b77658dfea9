// Drives the RocketMQ client for Go from the command line, as the Java driver does: one subcommand, options as --name value,
// one JSON object per line on standard output. A consumer runs until its standard input ends.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var commands = map[string]func(options) error{
	"produce":  produce,
	"push":     push,
	"transact": transact,
	"request":  request,
	"reply":    reply,
}

// line is one JSON object of the output.
type line map[string]any

var printing sync.Mutex

func (l line) print() {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

func main() {
	rlog.SetLogLevel("error") // it logs to standard error
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: driver produce|push|transact|request|reply --namesrv HOST:PORT ...")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](parsed(os.Args[2:])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	line{"done": true}.print()
}
