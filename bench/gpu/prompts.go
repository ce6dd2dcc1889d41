package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model"
)

// results is what tools/peers/cuda_torch.py reads.
type results struct {
	Model   shape           `json:"model"`
	Seed    uint64          `json:"seed"`
	Prompts []*promptResult `json:"prompts"`
}

type promptResult struct {
	Tokens   int              `json:"tokens"`
	Seconds  float64          `json:"seconds"`
	Top      []engine.TokenID `json:"top"` // likeliest next tokens, if they were asked for
	Logprobs []float32        `json:"logprobs"`
}

// measurePrompts measures each length: by the host's clock, and once more in parts by the device's.
func (b *bench) measurePrompts() error {
	ceiling, err := b.measureCeilings()
	if err != nil {
		return err
	}
	free, total, err := b.device.Memory()
	if err != nil {
		return err
	}
	longest := b.sizes.prompts[len(b.sizes.prompts)-1]
	start := time.Now()
	m, err := b.load(longest+block, b.chunk, b.chunk, 1)
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Fprintf(b.out, "%s, random weights made on the device in %.3g s; chunks of %d rows.\n\n", b.model.Name, time.Since(start).Seconds(), b.chunk)
	fmt.Fprint(b.out, "| tokens | ms | of runs | tokens/s | of the ceiling | linear | attention | rest | idle |\n|---|---|---|---|---|---|---|---|---|\n")
	r := results{Model: b.model, Seed: seed}
	var details strings.Builder
	for _, n := range b.sizes.prompts {
		p, detail, err := b.promptOf(m, n, ceiling)
		if err != nil {
			return err
		}
		r.Prompts = append(r.Prompts, p)
		details.WriteString(detail)
		if err := b.writeResults(r); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.out, `
Of the ceiling: tokens/s over those of a device that does every operation (all layers in full) at the ceiling. Parts are
from a run of their own, by the device's clock; idle is between kernels. %s
`, details.String())
	return b.printPromptMemory(m, free, total, longest)
}

// promptOf measures a prompt of n tokens, prints its row, and returns the kernels' shares.
func (b *bench) promptOf(m *model.Model, n int, ceiling ceilings) (*promptResult, string, error) {
	item := b.newPrompt(n, n, labels)
	took, runs, err := b.medianPass(m, item)
	if err != nil {
		return nil, "", err
	}
	times, err := b.device.measureTime(func() error {
		_, err := timePass(m, item)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	everything := totalKernelTime(times, func(string) bool { return true })
	share := func(counts func(string) bool) float64 {
		return 100 * totalKernelTime(times, counts).Seconds() / everything.Seconds()
	}
	is := func(names ...string) func(string) bool {
		return func(kernel string) bool {
			for _, n := range names {
				if n == kernel {
					return true
				}
			}
			return false
		}
	}
	linear, attention, waits := share(is(gemm)), share(is(flash, paged, "pf_attention", "pf_gather_kv")), share(is(idle))
	fmt.Fprintf(b.out, "| %d | %.4g | %d | %.4g | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", n, took.Seconds()*1e3, runs, float64(n)/took.Seconds(),
		100*ceiling.ceilingTime(b.model, n)/took.Seconds(), linear, attention, 100-linear-attention-waits, waits)
	detail := fmt.Sprintf("\n\nKernels at %d tokens:", n)
	for _, kernel := range byTime(times) {
		detail += fmt.Sprintf(" %s %.2f %%;", kernel, share(is(kernel)))
	}
	p := &promptResult{Tokens: n, Seconds: took.Seconds()}
	if n <= b.compared {
		p.Top, p.Logprobs, err = b.likeliestTokens(m, n)
	}
	return p, strings.TrimSuffix(detail, ";"), err
}

// likeliestTokens are the five likeliest tokens after the prompt.
func (b *bench) likeliestTokens(m *model.Model, n int) (ids []engine.TokenID, logprobs []float32, err error) {
	answers, err := runPassSteps(m, func(int) error { return nil }, b.newPrompt(n, n, engine.Ask{Top: 5}))
	if err != nil {
		return nil, nil, err
	}
	for _, l := range answers[0].Output.(*engine.TokenOutput).Answer.Top {
		ids, logprobs = append(ids, l.ID), append(logprobs, l.Logprob)
	}
	return ids, logprobs, nil
}

// writeResults keeps the figures so far.
func (b *bench) writeResults(r results) error {
	if b.results == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.results, raw, 0o644)
}

// printPromptMemory prints what the longest prompt took above the weights; before is what was free before the
// model was made.
func (b *bench) printPromptMemory(m *model.Model, before, total int64, longest int) error {
	after, _, err := b.device.Memory()
	if err != nil {
		return err
	}
	const gb = 1e9
	plan := m.Plan()
	fmt.Fprintf(b.out, "\nMemory for %d tokens: %.2f GB above the weights' %.2f GB (planned: %.2f GB, and the gathered keys and values of a layer); the context and cuBLASLt took %.2f GB before.\n",
		longest, float64(before-after-plan.Weights)/gb, float64(plan.Weights)/gb, float64(plan.Work)/gb, float64(total-before)/gb)
	return nil
}
