//go:build cgo && linux && amd64

// Command cpu is this engine's contestant in tools/peers/cpu: it loads a checkpoint and
// times one forward pass for each prompt length that it reads.
//
// A line `N` runs a pass over N random tokens for the next token's five likeliest, or with -labels for the
// probabilities of two labels, and is answered with the seconds it took; `memory` is answered with the most memory the
// process has held, in bytes. With -gemm a line N is answered with the FLOP/s of oneDNN's products of one layer on N rows.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/host"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cpu/onednn"
	"go.uber.org/zap"
)

func main() {
	dir := flag.String("model", "", "checkpoint folder")
	threads := flag.Int("threads", 0, "threads that compute (0: one a core)")
	maxLen := flag.Int("max-len", 8192, "longest prompt in tokens")
	cache := flag.Int64("cache-bytes", 64<<20, "size of the prefix cache")
	labels := flag.Bool("labels", false, "ask for two labels, which the LM head multiplies alone, in place of the five likeliest tokens")
	gemm := flag.Bool("gemm", false, "measure oneDNN's products instead")
	flag.Parse()
	answer := oneDNN
	var err error
	if !*gemm {
		ask := engine.Ask{Top: 5}
		if *labels {
			ask = engine.Ask{Allowed: engine.NewTokenSet(1, 2)}
		}
		answer, err = prefill(*dir, *threads, *maxLen, *cache, ask)
	}
	if err == nil {
		err = serve(answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/cpu:", err)
		os.Exit(1)
	}
}

// serve answers lines until the input ends.
func serve(answer func(tokens int) (float64, error)) error {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "memory" {
			bytes, err := peakMemory()
			if err != nil {
				return err
			}
			fmt.Println(bytes)
			continue
		}
		tokens, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		value, err := answer(tokens)
		if err != nil {
			return err
		}
		fmt.Println(value)
	}
	return lines.Err()
}

// prefill loads the model and returns the function that times a pass.
func prefill(dir string, threads, maxLen int, cacheBytes int64, ask engine.Ask) (func(int) (float64, error), error) {
	runner, err := device.Open(device.Options{
		Device: "cpu", Ranks: 1, Threads: threads, Models: []host.Model{{Name: dir, Path: dir, Prompts: host.Prompts{MaxLen: maxLen}}}, CacheBytes: cacheBytes, Log: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	model := runner.Info().Models[0]
	for _, piece := range model.Weights {
		if err := executor.Load(runner, dir, piece); err != nil {
			return nil, err
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	return func(tokens int) (float64, error) {
		ids := make([]engine.TokenID, tokens)
		for i := range ids {
			ids[i] = rng.Uint32N(uint32(model.Tokens.VocabSize))
		}
		start := time.Now()
		err := pass(runner, dir, &wire.TokenItem{Tokens: ids, Ask: ask})
		return time.Since(start).Seconds(), err
	}, nil
}

func pass(runner executor.Runner, model string, item *wire.TokenItem) error {
	p, err := runner.Begin(&wire.Run{Model: model, Items: []wire.RunItem{{Work: item}}})
	if err != nil {
		return err
	}
	defer p.Close()
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			return err
		}
	}
	if failed := p.Results()[0].Err; failed != nil {
		return failed
	}
	return nil
}

// shapes are the matrices [out, in] of one layer of Qwen2.5-0.5B.
var shapes = [][2]int{{1152, 896}, {896, 896}, {9728, 896}, {896, 4864}}

// oneDNN is the median rate of nine sweeps over the layer's products.
func oneDNN(rows int) (float64, error) {
	var runs []func() error
	var flop float64
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []uint16 {
		values := make([]uint16, n)
		for i := range values {
			values[i] = 0x3c00 | uint16(rng.Uint32())&0x80ff // small, of both signs
		}
		return values
	}
	for _, s := range shapes {
		product, err := onednn.New(rows, s[0], s[1], random(s[0]*s[1]))
		if err != nil {
			return 0, err
		}
		defer product.Free()
		src, dst := random(rows*s[1]), make([]uint16, rows*s[0])
		runs = append(runs, func() error { return product.Run(dst, src) })
		flop += 2 * float64(rows) * float64(s[0]) * float64(s[1])
	}
	var seconds []float64
	for range 10 {
		start := time.Now()
		for _, run := range runs {
			if err := run(); err != nil {
				return 0, err
			}
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	measured := seconds[1:]
	slices.Sort(measured)
	return flop / measured[len(measured)/2], nil
}

// peakMemory reads the high-water mark of the resident set.
func peakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}
