// Command casva trains the policy of videoext/pipeline/casva, from the root: go run ./tools/train/casva
//
// What it learns from, videoext/pipeline/casva/learn/streets.csv, is written by `prefillonly video pipelines --pipelines codec-streets --seed 0 --record streets.csv --out DIR`. It takes
// about a minute, and makes the same file again on the same kind of processor.
package main

import (
	"fmt"
	"os"

	"github.com/prefillonly/prefillonly/videoext/pipeline/casva/learn"
)

func main() {
	if err := train("videoext/pipeline/casva/streets.policy"); err != nil {
		fmt.Fprintln(os.Stderr, "casva:", err)
		os.Exit(1)
	}
}

func train(file string) error {
	table, err := learn.Streets()
	if err != nil {
		return err
	}
	policy := learn.Train(table, learn.Usual(), func(update int, reward float64) {
		if update%100 == 0 {
			fmt.Printf("update %d: reward %.3f\n", update, reward)
		}
	})
	for _, share := range []float64{0.05, 0.1, 0.2, 0.4, 0.8} {
		reward, accuracy, cost := learn.Judge(table, policy, policy.Choose, share)
		fmt.Printf("link %.2f: reward %.3f, accuracy %.3f for %.3f of the bytes, of what it was trained on\n", share, reward, accuracy, cost)
	}
	data, err := policy.AppendBinary(nil)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
