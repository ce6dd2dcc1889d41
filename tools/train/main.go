// Command train is the Go part of training the small models of the papers' experiments, from the root: it trains CASVA's policy (go run ./tools/train
// casva), and writes what the scripts beside it train networks on (lidar, scene).
package main

import (
	"fmt"
	"os"
)

var commands = map[string]func(args []string) error{"casva": trainPolicy, "lidar": writeSweeps, "scene": writeClip}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "invalid command: want casva, lidar or scene")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
		os.Exit(1)
	}
}
