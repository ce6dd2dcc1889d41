package host

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/model"
)

// Limits are what there is for all models of a device together, in bytes.
type Limits struct {
	Device     int64   // on each of its ranks
	Host       int64   // of host memory beside it, for all ranks
	Ranks      int     // at least 1
	CacheBytes int64   // of Device for prefix caches; 0: CacheShare
	CacheShare float64 // of what weights and passes leave of Device, for prefix caches
	Offloading int64   // of Host for each rank's blocks that prefix caches have no room for
	Padding    float64 // by which packed weights may exceed what is expected of them, as a share
}

// demand is what one model asks of a device: an LLM by its plan, an encoder and a network by what their passes take.
type demand struct {
	plan    model.Plan
	extra   int64        // working memory beside the plan's
	share   float64      // of the memory for prefix caches; 0: an equal part of what others leave
	encoder encoder.Size // working memory of an encoder's passes
	frames  int64        // working memory of a network's passes
	pieces  []piece      // of its weights
	always  bool         // its weights are never dropped
}

// hasCache says that the model has a prefix cache.
func (d *demand) hasCache() bool { return d.plan.Block > 0 }

// piece is a piece of weights, which models have in common that name it by the same position.
type piece struct {
	at    uint32
	bytes int64
}

// plan divides a device's memory, in bytes on each rank.
type plan struct {
	work   int64 // for passes of any of the models
	host   int64 // their residual streams in host memory, of all ranks
	caches int64 // for pages
	least  int64 // what weights take that must be there together
	all    int64 // what those of all models take, whether they can be there together or not

	pages, hostPages []int   // of each model
	refused          []error // of each model: why it is not part of the plan; nil where it is
}

// MemoryError says that a model, or all, cannot be run in the memory that there is.
type MemoryError struct{ Err error }

func (e *MemoryError) Error() string { return e.Err.Error() }
func (e *MemoryError) Unwrap() error { return e.Err }

// Mebibytes is an amount of memory in logs and errors.
type Mebibytes int64

func (b Mebibytes) String() string { return fmt.Sprintf("%.0f MiB", float64(b)/(1<<20)) }

// planMemory plans for the models of these demands, of which it refuses those that cannot fit, with what they
// take and what there is: alone, or beside what the models before them must have, of which those that are
// kept always come first.
func planMemory(l Limits, demands []demand) plan {
	p := plan{pages: make([]int, len(demands)), hostPages: make([]int, len(demands)), refused: make([]error, len(demands))}
	f := fitting{always: map[uint32]int64{}, pieces: map[uint32]int64{}}
	for _, always := range []bool{true, false} {
		for i := range demands {
			d := &demands[i]
			if d.always != always {
				continue
			}
			if p.refused[i] = (&fitting{}).withDemand(d).check(l, d); p.refused[i] == nil {
				p.refused[i] = f.withDemand(d).check(l, d)
			}
			if p.refused[i] == nil {
				f.addDemand(d)
			}
		}
	}
	p.work, p.host = f.work, f.host*int64(l.Ranks)
	p.least, p.all = l.paddedWeights(f.kept+f.most), l.paddedWeights(sumBytes(f.pieces))
	p.caches = l.cacheMemory(&f, &p)
	for i, part := range cacheShares(demands, p.refused) {
		if part == 0 {
			continue
		}
		p.pages[i] = int(part * float64(p.caches) / float64(demands[i].plan.Block))
		p.hostPages[i] = int(part * float64(l.Offloading) / float64(demands[i].plan.Block))
	}
	return p
}

// cacheShares are the parts of the prefix caches' memory that models get; those that are refused get none.
func cacheShares(demands []demand, refused []error) []float64 {
	parts, left, equal := make([]float64, len(demands)), 1.0, 0
	for i := range demands {
		switch {
		case refused[i] != nil || !demands[i].hasCache():
		case demands[i].share > 0:
			parts[i] = min(demands[i].share, left)
			left -= parts[i]
		default:
			equal++
		}
	}
	for i := range demands {
		if refused[i] == nil && demands[i].share == 0 && demands[i].hasCache() {
			parts[i] = left / float64(equal)
		}
	}
	return parts
}

// paddedWeights is what weights may take of which so much is expected.
func (l *Limits) paddedWeights(bytes int64) int64 { return bytes + int64(l.Padding*float64(bytes)) }

// cacheMemory is the memory for pages of models that fit. Where the weights of all leave little, the caches of
// n models get their share of an n-th of what is left beside the least weights that must be there.
func (l *Limits) cacheMemory(f *fitting, p *plan) int64 {
	if l.CacheBytes > 0 || f.cached == 0 {
		return f.cacheBytes(l)
	}
	free := l.Device - p.work
	return int64(l.CacheShare * float64(max(0, free-p.all, (free-p.least)/int64(f.count))))
}

// fitting are models that fit together: passes of any of them run where its weights and those that are
// kept always are resident.
type fitting struct {
	count  int
	cached int              // of them, that have a prefix cache
	always map[uint32]int64 // pieces that are kept always, with their bytes
	pieces map[uint32]int64 // of all models
	kept   int64            // bytes of pieces that are kept always
	most   int64            // bytes of one model's other pieces

	shaping      []model.Plan // of models that make the shared working memory as large as it is
	shared, host int64        // that, on a rank and in host memory
	extra, stage int64        // the most of a model
	encoder      encoder.Size // of encoders, which share it
	frames       int64        // of networks, which share it
	work         int64        // all of these on a rank
}

// cacheBytes is what prefix caches are said to take.
func (f *fitting) cacheBytes(l *Limits) int64 {
	if f.cached == 0 {
		return 0
	}
	return l.CacheBytes
}

// withDemand is the models and one more, but for the pieces that there are. Models that are kept always come before
// others.
func (f *fitting) withDemand(d *demand) *fitting {
	next := *f
	next.count++
	var own int64
	for _, p := range d.pieces {
		if _, kept := f.always[p.at]; !kept {
			own += p.bytes
		}
	}
	if d.always {
		next.kept += own
	} else {
		next.most = max(f.most, own)
	}
	if d.hasCache() {
		next.cached++
	}
	next.extra, next.stage = max(f.extra, d.extra), max(f.stage, d.plan.Stage)
	next.encoder, next.frames = f.encoder.Larger(d.encoder), max(f.frames, d.frames)
	next.shaping = append(f.shaping[:len(f.shaping):len(f.shaping)], d.plan)
	work, host := model.Shared(next.shaping...)
	if work == f.shared && host == f.host {
		next.shaping = f.shaping
	}
	next.shared, next.host, next.work = work, host, work+next.extra+next.encoder.Total()+next.frames
	if next.count > 1 { // one is loaded before pages and passes fill their memory
		next.work += next.stage
	}
	return &next
}

// addDemand makes the models those with one more.
func (f *fitting) addDemand(d *demand) {
	*f = *f.withDemand(d)
	for _, p := range d.pieces {
		f.pieces[p.at] = p.bytes
		if d.always {
			f.always[p.at] = p.bytes
		}
	}
}

func sumBytes(pieces map[uint32]int64) (bytes int64) {
	for _, n := range pieces {
		bytes += n
	}
	return bytes
}

// check says why the models, of which d is the last, do not fit.
func (f *fitting) check(l Limits, d *demand) error {
	least := l.paddedWeights(f.kept + f.most)
	if caches := f.cacheBytes(&l); f.work+least+caches > l.Device {
		beside := ""
		if f.count > 1 {
			beside = ", with what the models beside it must have"
		}
		working, lower := "working set of the longest prompt", "--max-model-len or --kv-cache-memory-bytes"
		switch {
		case d.encoder.Views > 0:
			working, lower = "working memory of its passes", "--max-model-len"
		case !d.hasCache():
			working, lower = "working memory of its passes", "its work-memory"
		}
		return &MemoryError{fmt.Errorf("%s are available, but the weights take %v, the %s %v, and the prefix cache %v%s: lower %s, take a smaller model, or on a GPU raise --gpu-memory-utilization",
			Mebibytes(l.Device), Mebibytes(least), working, Mebibytes(f.work), Mebibytes(caches), beside, lower)}
	}
	streams, offloaded := f.host*int64(l.Ranks), l.Offloading*int64(l.Ranks)
	switch {
	case offloaded > l.Host:
		return &MemoryError{fmt.Errorf("%v of host memory are available, --kv-offloading-size takes %v: lower it", Mebibytes(l.Host), Mebibytes(offloaded))}
	case streams+offloaded > l.Host:
		return &MemoryError{fmt.Errorf("%v of host memory are available, but residual streams of the longest prompt take %v, and --kv-offloading-size %v: lower --max-model-len or --kv-offloading-size",
			Mebibytes(l.Host), Mebibytes(streams), Mebibytes(offloaded))}
	case d.hasCache() && l.Offloading > 0 && l.Offloading < d.plan.Block:
		return &MemoryError{fmt.Errorf("--kv-offloading-size is %v, less than a block of %v: raise it, or lower --block-size", Mebibytes(offloaded), Mebibytes(d.plan.Block*int64(l.Ranks)))}
	}
	return nil
}
