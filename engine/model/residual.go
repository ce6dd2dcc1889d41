package model

// GPURows is what Options.ResidentRows is for GPUs. Most prompts stay on the device whole. In longer ones
// a chunk's layer is to take longer than its copies: by arithmetic, 4,096 rows of 4,096 floats go there
// and back in 2.7 ms at the 50 GB/s of PCIe 5, and a layer of Llama-3.1-8B at 16,384 tokens takes an H200 3.4 ms.
const GPURows = 16 << 10

// residualSlots is enough for a longest pass and for SpareRows rows of others.
func residualSlots(o Options) int { return o.chunkCount(o.MaxLen) + o.chunkCount(o.SpareRows) }

// residentSlots is how many of these the device keeps.
func residentSlots(o Options) int {
	all := residualSlots(o)
	if n := o.chunkCount(o.ResidentRows); o.ResidentRows > 0 && n+streamStages < all {
		return n
	}
	return all
}

// ensureChunkOnDevice has the residual stream of the pass's i-th chunk on the device; those of a layer come one after the other.
// Chunks in host memory are loaded one ahead (which comes first in the order of copies, so before the chunk at work
// is saved). At the first layer there is nothing to load.
func (p *Pass) ensureChunkOnDevice(i int) {
	if i == 0 {
		p.stageNextChunk(0)
	}
	r, c := &p.m.work.residual, &p.chunks[i]
	if !r.Spilled(c.slot) {
		return
	}
	if p.layer == 0 {
		r.AwaitSaved(c.stage)
	} else {
		r.Await(c.loaded)
	}
	p.stageNextChunk(i + 1)
}

// saveChunk saves a chunk that has gone through a layer, if its place is in host memory and the layer changes it.
func (p *Pass) saveChunk(c *chunk, changed bool) {
	if r := &p.m.work.residual; r.Spilled(c.slot) && (changed || p.layer == 0) {
		r.Save(c.slot, c.stage, c.x)
	}
}

// stageNextChunk gives the next chunk in host memory, from a chunk on, its place on the device and begins to
// load it.
func (p *Pass) stageNextChunk(from int) {
	r := &p.m.work.residual
	for i := from; i < len(p.chunks); i++ {
		c := &p.chunks[i]
		if !r.Spilled(c.slot) {
			continue
		}
		c.stage = r.Stage()
		c.x = r.Place(c.slot, c.stage).Slice(0, c.x.Rows)
		if p.layer > 0 {
			c.loaded = r.Load(c.slot, 0, c.x)
		}
		return
	}
}

// awaitStagedLoad waits for the load that a pass which is dropped inside a layer has begun: its place on the device
// is the next pass's.
func (p *Pass) awaitStagedLoad() {
	if !p.isBetweenLayers() {
		p.m.work.residual.Settle()
	}
}
