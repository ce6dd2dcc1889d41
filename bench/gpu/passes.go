package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// compareSuffixes compares suffixes over one cached prefix in one pass with one pass each.
func (b *bench) compareSuffixes() error {
	m, err := b.load(b.cached+max(b.suffix, b.packed*b.suffix)+block, b.chunk, b.chunk, b.cached/block)
	if err != nil {
		return err
	}
	defer m.Close()
	prefix := b.newPrompt(1, b.cached, labels)
	for i := range b.cached / block {
		prefix.Blocks = append(prefix.Blocks, wire.BlockID(i))
	}
	whole, err := timePass(m, prefix)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s: %d suffixes of %d tokens over %d cached ones (which took %.4g ms to compute).\n\n| in a pass | ms a suffix | suffixes/s | against one |\n|---|---|---|---|\n",
		b.model.Name, b.packed, b.suffix, b.cached, whole.Seconds()*1e3)
	var alone float64
	for size := 1; size <= b.packed; size *= 2 {
		items := make([]wire.TokenItem, size)
		for i := range items {
			items[i] = b.newPrompt(100+i, b.suffix, labels)
			items[i].Tokens = append(slices.Clone(prefix.Tokens), items[i].Tokens...)
			items[i].Cached, items[i].Blocks = b.cached, prefix.Blocks
		}
		took, _, err := b.medianPass(m, items...)
		if err != nil {
			return err
		}
		each := took.Seconds() / float64(size)
		if size == 1 {
			alone = each
		}
		fmt.Fprintf(b.out, "| %d | %.4g | %.4g | %.2f |\n", size, each*1e3, 1/each, alone/each)
	}
	return nil
}

// measureChunkSizes tries sizes of a chunk.
func (b *bench) measureChunkSizes() error {
	fmt.Fprintf(b.out, "%s, %d tokens.\n\n| rows of a chunk | ms | tokens/s |\n|---|---|---|\n", b.model.Name, b.chunked)
	for _, rows := range b.chunkings {
		if err := b.chunksOf(rows); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) chunksOf(rows int) error {
	m, err := b.load(b.chunked+block, rows, rows, 1)
	if err != nil {
		return err
	}
	defer m.Close()
	took, _, err := b.medianPass(m, b.newPrompt(1, b.chunked, labels))
	if err == nil {
		fmt.Fprintf(b.out, "| %d | %.4g | %.4g |\n", rows, took.Seconds()*1e3, float64(b.chunked)/took.Seconds())
	}
	return err
}

// measurePause measures how soon a long pass makes way for a short one, and what both lose.
func (b *bench) measurePause() error {
	m, err := b.load(b.long+block, b.short+b.chunk, b.chunk, 1)
	if err != nil {
		return err
	}
	defer m.Close()
	long, short := b.newPrompt(1, b.long, labels), b.newPrompt(2, b.short, labels)
	longAlone, _, err := b.medianPass(m, long)
	if err != nil {
		return err
	}
	shortAlone, _, err := b.medianPass(m, short)
	if err != nil {
		return err
	}
	var layers []time.Duration
	var inside time.Duration
	start := time.Now()
	last := start
	_, err = runPassSteps(m, func(layer int) error {
		layers = append(layers, time.Since(last))
		if layer == b.model.Layers/2 {
			if inside, err = timePass(m, short); err != nil {
				return err
			}
		}
		last = time.Now()
		return nil
	}, long)
	if err != nil {
		return err
	}
	both := time.Since(start)
	const ms = 1e3
	fmt.Fprintf(b.out, "%s: a pass of %d tokens makes way after any layer, within %.4g ms (median %.4g ms). One of %d tokens in its middle took %.4g ms, alone %.4g ms; the long one lost %.3g ms of its %.5g ms by it.\n",
		b.model.Name, b.long, slices.Max(layers).Seconds()*ms, medianDuration(layers).Seconds()*ms, b.short,
		inside.Seconds()*ms, shortAlone.Seconds()*ms, (both-inside-longAlone).Seconds()*ms, longAlone.Seconds()*ms)
	return nil
}
