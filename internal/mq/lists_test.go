package mq

import (
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// sum is of a list in its order.
func sum(ids []engine.TokenID) (h uint64) {
	for _, id := range ids {
		h = (h ^ uint64(id)) * 0x100000001b3
	}
	return h
}

// testLists sends random lists of all lengths there, on to another peer, and in part back, while each side writes over
// what it has sent, and goes on with what it was sent: nobody's list changes under another's hands.
func testLists(t *testing.T, n network) {
	s, from, to := n.listen(t), n.dial(t), n.dial(t)
	defer s.Close()
	defer from.Close()
	defer to.Close()
	greet(t, from, "from")
	mustServe(t, s, "from")
	greet(t, to, "to")
	mustServe(t, s, "to")
	rng := rand.New(rand.NewPCG(1, 2))
	type held struct {
		ids []engine.TokenID
		sum uint64
	}
	var kept []held // by the side in the middle, as a scheduler keeps jobs
	for id := range engine.JobID(300) {
		ids := make([]engine.TokenID, 1+rng.IntN(1<<rng.IntN(16)))
		for i := range ids {
			ids[i] = rng.Uint32()
		}
		want := sum(ids)
		submit := &wire.Submit{Job: engine.Job{ID: 1 + id, Model: "m", Work: &engine.Tokens{IDs: ids}}}
		if err := from.Send(submit); err != nil {
			t.Fatal(err)
		}
		clear(ids)
		got := mustServe(t, s, "from").(*wire.Submit).Work.(*engine.Tokens).IDs
		kept = append(kept, held{got, want})
		sent := append(got, rng.Uint32())
		item := &wire.TokenItem{Tokens: sent, Blocks: []wire.BlockID{7, wire.BlockID(id)}}
		longer := sum(sent)
		if err := s.Send("to", &wire.Run{Pass: 1, Model: "m", Items: []wire.RunItem{{Job: 1 + id, Work: item}}}); err != nil {
			t.Fatal(err)
		}
		clear(sent)
		clear(item.Blocks)
		run := mustRecv(t, to).(*wire.Run).Items[0].Work.(*wire.TokenItem)
		if sum(run.Tokens) != longer || len(run.Blocks) != 2 || run.Blocks[0] != 7 || run.Blocks[1] != wire.BlockID(id) {
			t.Fatalf("job %d: a list of %d tokens changed on its way", 1+id, len(sent))
		}
	}
	for i, k := range kept {
		if sum(k.ids) != k.sum {
			t.Fatalf("list %d of %d tokens changed while it was kept", i, len(k.ids))
		}
	}
}
