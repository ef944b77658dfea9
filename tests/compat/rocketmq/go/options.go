package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// options are given as --name value, and --name alone for a switch.
type options map[string]string

func parsed(args []string) options {
	values := options{}
	for at := 0; at < len(args); at++ {
		name, found := strings.CutPrefix(args[at], "--")
		if !found {
			refuse("not an option: " + args[at])
		}
		values[name] = "true"
		if at+1 < len(args) && !strings.HasPrefix(args[at+1], "--") {
			at++
			values[name] = args[at]
		}
	}
	return values
}

func (o options) has(name string) bool {
	_, found := o[name]
	return found
}

func (o options) text(name string) string {
	if !o.has(name) {
		refuse("--" + name + " is needed")
	}
	return o[name]
}

func (o options) textOr(name, otherwise string) string {
	if !o.has(name) {
		return otherwise
	}
	return o[name]
}

func (o options) numberOr(name string, otherwise int) int {
	if !o.has(name) {
		return otherwise
	}
	number, err := strconv.Atoi(o[name])
	if err != nil {
		refuse("--" + name + " is a number")
	}
	return number
}

func refuse(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(2)
}
