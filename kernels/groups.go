package kernels

// Groups are the codes of four bits that a tensor's elements were expanded from: an element is worth (code - zero point) * scale, rounded to
// bfloat16. A backend may keep them in place of the elements.
type Groups struct {
	Codes []byte    // [rows][columns], each 0 to 15
	Cols  int       // that share a scale and a zero point, an even number; the last group may have fewer
	Scale []float32 // [rows][groups]
	Zero  []byte    // [rows][groups]
}

// GroupHolder is a Backend that keeps Groups.
type GroupHolder interface{ HoldsGroups() }

// Count is how many groups a row of so many columns has.
func (g *Groups) Count(cols int) int { return (cols + g.Cols - 1) / g.Cols }

// GroupBytes is what Groups of a matrix take in memory.
func GroupBytes(rows, cols, group int64) int64 {
	return rows * (cols/2 + 5*((cols+group-1)/group))
}

// Slice is the groups of rows [from, to) of a tensor of so many columns.
func (g *Groups) Slice(cols, from, to int) *Groups {
	n := g.Count(cols)
	return &Groups{g.Codes[from*cols : to*cols], g.Cols, g.Scale[from*n : to*n], g.Zero[from*n : to*n]}
}
