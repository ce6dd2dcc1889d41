package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// copy moves pages as a run asks for, each of which must have something in it.
func (h *history) copy(to PeerID, run *wire.Run) {
	for _, c := range run.Saves {
		if len(h.pages[to][c.Device]) == 0 || int(c.Host) >= h.info.HostBlocks {
			h.t.Fatalf("%s is to save page %d, in which there is nothing, as %d of %d", to, c.Device, c.Host, h.info.HostBlocks)
		}
		h.memory[to][c.Host] = h.pages[to][c.Device]
	}
	for _, c := range run.Loads {
		if len(h.memory[to][c.Host]) == 0 {
			h.t.Fatalf("%s is to load page %d of host memory, in which there is nothing", to, c.Host)
		}
		h.pages[to][c.Device] = h.memory[to][c.Host]
		h.loads++
	}
}

// unload takes back the loads of a run that did not begin.
func (h *history) unload(executor PeerID, run *wire.Run) {
	for _, c := range run.Loads {
		delete(h.pages[executor], c.Device)
	}
}

// filled follows what a pass leaves in its pages: of an item that failed there is no telling.
func (h *history) filled(executor PeerID, run *wire.Run, d *wire.Done) {
	for k, item := range parts(run) {
		for i, b := range item.Blocks {
			switch {
			case d.Err == nil && d.Items[k].Err == nil:
				h.pages[executor][b] = h.whole[item.Job][:min((i+1)*h.info.BlockTokens, item.Len())]
			case (i+1)*h.info.BlockTokens > item.Cached:
				h.spoil(executor, b, i, item.Cached-item.Part.Tokens)
			}
		}
	}
}

// spoil leaves of the page of block i what is in the first tokens of a sequence, if any.
func (h *history) spoil(executor PeerID, b wire.BlockID, i, tokens int) {
	if has := h.pages[executor][b]; tokens > i*h.info.BlockTokens && len(has) >= tokens {
		h.pages[executor][b] = has[:tokens]
		return
	}
	delete(h.pages[executor], b)
}

// checkBrought holds that an item brings of its sequence what is computed, what its bans look at, and no more.
func (h *history) checkBrought(item *part) {
	whole := h.whole[item.Job]
	recalled := min(item.Draw, item.Ask.Recalls())
	if item.Len() != len(whole) || item.From != min(item.Cached, len(whole)-recalled) || !slices.Equal(item.Tokens, whole[item.From:]) {
		h.t.Fatalf("job %v: of %v, of which %d are cached, it brings those from %d on: %v", item.Job, whole, item.Cached, item.From, item.Tokens)
	}
	if !slices.Equal(item.Generated()[len(item.Generated())-recalled:], whole[len(whole)-recalled:]) || item.Draw != h.tokens[item.Job] {
		h.t.Fatalf("job %v: %v, with %d generated, brings the last %v of these", item.Job, whole, h.tokens[item.Job], item.Generated())
	}
}

// checkCached holds that the pages of an item have in them what it is said to have cached.
func (h *history) checkCached(to PeerID, item *part) {
	whole := item.Cached - item.Part.Tokens
	if item.Part.Tokens > 0 {
		h.parts++
		has := h.pages[to][item.Part.Block]
		if len(has) < item.Cached || !slices.Equal(has[:item.Cached], h.whole[item.Job][:item.Cached]) || whole%h.info.BlockTokens != 0 || !h.info.CopiesParts {
			h.t.Fatalf("job %v on %s: %d tokens are said to be cached, the last %d in block %d, which holds %d tokens of others",
				item.Job, to, item.Cached, item.Part.Tokens, item.Part.Block, len(has))
		}
	}
	for i, b := range item.Blocks {
		need := h.whole[item.Job][:min((i+1)*h.info.BlockTokens, whole)]
		if i*h.info.BlockTokens >= whole {
			return
		}
		if has := h.pages[to][b]; len(has) < len(need) || !slices.Equal(has[:len(need)], need) {
			h.t.Fatalf("job %v on %s: %d tokens are said to be cached, but block %d holds others", item.Job, to, item.Cached, b)
		}
	}
}

// passesOf lists all passes of an executor.
func (h *history) passesOf(of PeerID) []*wire.Run {
	list := slices.Concat(h.parked[of], h.lowest[of], []*wire.Run{h.current[of]})
	return slices.DeleteFunc(list, func(run *wire.Run) bool { return run == nil })
}

// checkPages holds that no page is written by one item and in the hands of another.
func (h *history) checkPages(to PeerID) {
	written, read := map[wire.BlockID]engine.JobID{}, map[wire.BlockID]engine.JobID{}
	for _, run := range h.passesOf(to) {
		for _, item := range parts(run) {
			for i, b := range item.Blocks {
				if other, ok := written[b]; ok {
					h.t.Fatalf("block %d is in the hands of jobs %v and %v", b, other, item.Job)
				}
				if i < (item.Cached-item.Part.Tokens)/h.info.BlockTokens {
					read[b] = item.Job
					continue
				}
				if other, ok := read[b]; ok {
					h.t.Fatalf("job %v writes block %d that job %v reads", item.Job, b, other)
				}
				written[b] = item.Job
			}
		}
	}
	h.checkParts(to)
}

// checkParts holds that no item writes what another is to copy.
func (h *history) checkParts(to PeerID) {
	copied := map[wire.BlockID]int{} // tokens
	runs := h.passesOf(to)
	for _, run := range runs {
		for _, item := range parts(run) {
			copied[item.Part.Block] = max(copied[item.Part.Block], item.Part.Tokens)
		}
	}
	for _, run := range runs {
		for _, item := range parts(run) {
			for i, b := range item.Blocks {
				if from := item.Cached - item.Part.Tokens - i*h.info.BlockTokens; from < h.info.BlockTokens && max(from, 0) < copied[b] {
					h.t.Fatalf("job %v writes block %d from token %d on, of which %d are to be copied", item.Job, b, max(from, 0), copied[b])
				}
			}
		}
	}
}
