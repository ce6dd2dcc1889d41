package scheduler

import (
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
)

// toPages is a lease's pages in the form that travels.
func toPages(pages []kvcache.Page) []wire.BlockID {
	ids := make([]wire.BlockID, len(pages))
	for i, p := range pages {
		ids[i] = wire.BlockID(p)
	}
	return ids
}

// appendLoads and appendSaves bring an index's copies into the form that travels.
func appendLoads(to []wire.Copy, loads []kvcache.Copy) []wire.Copy {
	for _, c := range loads {
		to = append(to, wire.Copy{Device: wire.BlockID(c.Device), Host: wire.BlockID(c.Host)})
	}
	return to
}

func appendSaves(to []wire.Copy, saves []kvcache.Save) []wire.Copy {
	for _, s := range saves {
		to = append(to, wire.Copy{Device: wire.BlockID(s.Device), Host: wire.BlockID(s.Host)})
	}
	return to
}
