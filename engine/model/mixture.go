package model

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// route is the rows of a chunk that go through an expert, and what it counts in each.
type route struct {
	rows   []int32
	shares []float32
}

func (r *route) addRow(row int, share float32) {
	r.rows, r.shares = append(r.rows, int32(row)), append(r.shares, share)
}

// addExperts adds to rows of the residual stream what their experts give. Rows are sorted by expert, so that an expert's matrices are read once,
// and only if a row goes through it. What a row is depends on itself alone: its experts are added in their own order.
func (m *Model) addExperts(x kernels.Mat, l *layer) {
	before, picked := m.work.routed.Slice(0, x.Rows), m.work.routed.Slice(m.opts.ChunkRows, m.work.routed.Rows)
	m.experts.PickRows(before, x, rowNumbers(x.Rows))
	for e, r := range m.routeRows(x, l) {
		n := len(r.rows)
		if n == 0 {
			continue
		}
		in, out := picked.Slice(0, n), m.work.given.Slice(0, n)
		m.experts.PickRows(in, before, r.rows)
		m.experts.MLPProduct(out, in, l.mlp.before, m.spec.Act, l.mlps[e].up, l.mlps[e].down)
		m.experts.AddScaledRows(x, out, r.rows, r.shares)
	}
}

// routeRows says which rows go through each of a layer's experts.
func (m *Model) routeRows(x kernels.Mat, l *layer) []route {
	routes, logits := make([]route, len(l.mlps)), m.multiplyTable(x, l.mlp.before, l.router)
	for i := range x.Rows {
		n := l.router.Rows()
		m.spec.Mixture.Choose(logits[i*n:(i+1)*n], func(expert int, share float32) { routes[expert].addRow(i, share) })
	}
	if l.sharedGate != nil {
		for i, v := range m.multiplyTable(x, l.mlp.before, l.sharedGate) {
			routes[len(routes)-1].addRow(i, float32(1/(1+math.Exp(-float64(v)))))
		}
	}
	return routes
}

// multiplyTable is the products of normalised rows and the rows of a table, on the host.
func (m *Model) multiplyTable(x kernels.Mat, n kernels.Norm, table kernels.Table) []float32 {
	dst := m.work.choices.Slice(0, x.Rows)
	dst.Cols, dst.Stride = table.Rows(), table.Rows()
	m.backend.Logits(dst, x, n, table, nil)
	values := make([]float32, dst.Rows*dst.Cols)
	m.backend.Read(bytesOf(values), dst.Buf, dst.Off)
	return values
}

// rowNumbers are those of n rows.
func rowNumbers(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}
