package main

import (
	"fmt"
	"os"

	"github.com/prefillonly/prefillonly/videoext/pipeline/casva"
)

// trainPolicy trains CASVA's policy, of what `prefillonly video pipelines --pipelines codec-streets --seed 0 --record streets.csv --out DIR` has
// written for videoext/pipeline/casva. It takes about a minute, and makes the same file again on the same kind of processor.
func trainPolicy([]string) error {
	const file = "videoext/pipeline/casva/streets.policy"
	table, err := casva.StreetTable()
	if err != nil {
		return err
	}
	policy := casva.TrainPolicy(table, casva.UsualTraining(), func(update int, reward float64) {
		if update%100 == 0 {
			fmt.Printf("update %d: reward %.3f\n", update, reward)
		}
	})
	for _, share := range []float64{0.05, 0.1, 0.2, 0.4, 0.8} {
		reward, accuracy, cost := casva.JudgePolicy(table, policy, policy.Choose, share)
		fmt.Printf("link %.2f: reward %.3f, accuracy %.3f for %.3f of the bytes, of what it was trained on\n", share, reward, accuracy, cost)
	}
	data, err := policy.AppendBinary(nil)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
