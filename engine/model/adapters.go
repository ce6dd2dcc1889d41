package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights/peft"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/kernels"
)

// An adapter is data beside the model's weights: of each packed matrix of a layer its A's stacked, and its B's in blocks beside each other, so
// that a packed matrix has one low-rank product. They are parts of the layer's chunk. A pass's items name their adapters, and a chunk has
// runs of rows of one adapter.

// lowRank is an adapter's product for a packed matrix; nil where it has none.
type lowRank struct{ a, b kernels.Linear }

// lowLayer is an adapter's products in a layer; the last one has q and kv in place of qkv.
type lowLayer struct{ qkv, q, kv, out, up, down lowRank }

// adaptedRows are rows of a chunk side by side of one adapter, by its number.
type adaptedRows struct{ adapter, row, rows int }

// checkAdapters refuses adapters that do not fit the model, or its backend.
func (m *Model) checkAdapters() error {
	if len(m.opts.Adapters) == 0 {
		return nil
	}
	if _, ok := m.backend.(kernels.LowRanks); !ok {
		return fmt.Errorf("adapter %s: adapters are applied on one CPU device alone, not on %s: serve a merged checkpoint there", m.opts.Adapters[0].Name, m.backend.Name())
	}
	layers := map[string][2]int{}
	for i := range m.spec.Layers {
		for _, x := range m.adaptable(i) {
			layers[x.Name] = [2]int{x.Of, x.In}
		}
	}
	for _, a := range m.opts.Adapters {
		if err := a.Check(layers); err != nil {
			return err
		}
		m.print += "-" + a.Digest
	}
	return nil
}

// adaptable are the matrices of layer i that adapters may have pairs for: all but experts.
func (m *Model) adaptable(i int) []architecture.Matrix {
	list := m.spec.Matrices(i)
	if m.spec.HasExperts(i) {
		return list[:4]
	}
	return list
}

// adapterOf is the number of an adapter; -1 for the model alone, and whether there is one of this name.
func (m *Model) adapterOf(name string) (int, bool) {
	at := slices.IndexFunc(m.opts.Adapters, func(a *peft.Adapter) bool { return a.Name == name })
	return at, at >= 0 || name == ""
}

// adapterParts are those of the adapters for a packed matrix of a layer.
func (m *Model) adapterParts(low []lowLayer, kind string, of func(*lowLayer) *lowRank, stack []architecture.Matrix) (parts []store.Part) {
	for i, a := range m.opts.Adapters {
		names := pairsOf(a, stack)
		if names == nil {
			continue
		}
		rank, what := 0, a.Digest
		for _, name := range names {
			rank += a.Rank(name)
		}
		for _, x := range stack {
			what += " " + x.Name + m.rowsKind(x)
		}
		to := of(&low[i])
		m.lowRank = max(m.lowRank, rank)
		parts = append(parts, store.Part{
			Kind: "low-rank A of " + what, Bytes: lowRankBytes(rank, stack[0].In), Set: setField(&to.a),
			Make: func([]kernels.HostTensor) (kernels.Held, error) { return m.makeA(a, names, stack[0].In) },
		}, store.Part{
			Kind: "low-rank B of " + what, Bytes: lowRankBytes(rowsOf(stack), rank), Set: setField(&to.b),
			Make: func([]kernels.HostTensor) (kernels.Held, error) { return m.makeB(a, names, rank, kind, stack) },
		})
	}
	return parts
}

// lowRankBytes is what a matrix takes in bfloat16, filled up to whole panels.
func lowRankBytes(rows, cols int) int64 { return 2 * int64((rows+31)&^31) * int64((cols+31)&^31) }

func rowsOf(stack []architecture.Matrix) (rows int) {
	for _, x := range stack {
		rows += x.Rows
	}
	return rows
}

// pairsOf are the tensors of a packed matrix that an adapter has pairs for, each once.
func pairsOf(a *peft.Adapter, stack []architecture.Matrix) (names []string) {
	for _, x := range stack {
		if a.Rank(x.Name) > 0 && !slices.Contains(names, x.Name) {
			names = append(names, x.Name)
		}
	}
	return names
}

func hostMatrix(name string, values []float32, cols int) kernels.HostTensor {
	return kernels.HostTensor{Name: name, Type: kernels.F32, Rows: len(values) / cols, Cols: cols, Data: bytesOf(values)}
}

// makeA stacks an adapter's A's.
func (m *Model) makeA(a *peft.Adapter, names []string, in int) (kernels.Held, error) {
	defer func() { _ = a.Close() }() // nothing was written
	var all []kernels.HostTensor
	for _, name := range names {
		forA, _, err := a.Read(name)
		if err != nil {
			return nil, fmt.Errorf("adapter %s: %w", a.Name, err)
		}
		all = append(all, hostMatrix(name, forA, in))
	}
	return m.backend.NewLinear(all, nil)
}

// makeB has each B in the columns of its A's rows, and the rows in the order of the packed matrix.
func (m *Model) makeB(a *peft.Adapter, names []string, rank int, kind string, stack []architecture.Matrix) (kernels.Held, error) {
	defer func() { _ = a.Close() }() // nothing was written
	all := make([]kernels.HostTensor, len(stack))
	for i, x := range stack {
		wide, from := make([]float32, x.Rows*rank), 0
		for _, name := range names {
			own := a.Rank(name)
			if name == x.Name {
				_, forB, err := a.Read(name)
				if err != nil {
					return nil, fmt.Errorf("adapter %s: %w", a.Name, err)
				}
				rows, err := m.matrixRows(x, hostMatrix(name, forB, own))
				if err != nil {
					return nil, err
				}
				values := make([]float32, x.Rows*own)
				kernels.Expand(values, kernels.F32, rows.Data)
				for r := range x.Rows {
					copy(wide[r*rank+from:], values[r*own:(r+1)*own])
				}
			}
			from += own
		}
		all[i] = hostMatrix(x.Name, wide, rank)
	}
	if kind == "gated" {
		return m.backend.NewGatedLinear(all[0], all[1])
	}
	return m.backend.NewLinear(all, nil)
}

// collectLowRanks are the low-rank products of an operation with a layer's matrix.
func (l *layer) collectLowRanks(rows []adaptedRows, of func(*lowLayer) *lowRank) (low []kernels.LowRank) {
	for _, r := range rows {
		if p := of(&l.low[r.adapter]); p.a != nil {
			low = append(low, kernels.LowRank{Row: r.row, Rows: r.rows, A: p.a, B: p.b})
		}
	}
	return low
}

// addRows adds rows of an item to those of the adapters.
func addRows(list []adaptedRows, it *item, row, rows int) []adaptedRows {
	if it.adapter < 0 {
		return list
	}
	if n := len(list); n > 0 && list[n-1].adapter == it.adapter && list[n-1].row+list[n-1].rows == row {
		list[n-1].rows += rows
		return list
	}
	return append(list, adaptedRows{it.adapter, row, rows})
}

func (m *Model) normLinear(dst, x kernels.Mat, n kernels.Norm, linear kernels.Linear, low []kernels.LowRank) {
	if low == nil {
		m.backend.NormLinear(dst, x, n, linear)
		return
	}
	m.backend.(kernels.LowRanks).NormLinearLowRank(dst, x, n, linear, low)
}

func (m *Model) addLowRank(x, src kernels.Mat, low []kernels.LowRank) {
	if low != nil {
		m.backend.(kernels.LowRanks).AddLowRank(x, src, low)
	}
}

// adapterScratch is what low-rank products hold beside other work.
func (m *Model) adapterScratch() int64 {
	b, ok := m.backend.(kernels.LowRanks)
	if !ok || len(m.opts.Adapters) == 0 {
		return 0
	}
	return b.LowRankBytes(m.opts.ChunkRows, m.spec.Heads.QKVCols(), m.spec.WidestMLP(), m.lowRank)
}

// adapterNames lists the adapters for an error.
func (m *Model) adapterNames() string {
	var names []string
	for _, a := range m.opts.Adapters {
		names = append(names, a.Name)
	}
	return strings.Join(names, ", ")
}
