package kernels

// Rank is a Backend that can be one of several over which a model is spread (package
// tensorparallel). Each rank holds a part of every matrix; what it contributes to a sum over all of
// them is a partial, a matrix of one of PartialTypes.
type Rank interface {
	Backend

	// PartialTypes lists the types that partials may have; float32 is the first.
	PartialTypes() []DType
	// AddSum sets x += parts[0] + parts[1] + ..., and SetSum x to that; the parts are summed in this order first, in float32,
	// and are of one type. They may lie
	// in buffers of other ranks of the same kind where the device can read those.
	AddSum(x Mat, parts []Mat)
	SetSum(x Mat, parts []Mat)
	// SubTable is the view of rows [from, to) of t, which keeps the memory: the view ends with t and is
	// not freed.
	SubTable(t Table, from, to int) Table
}

// outputLinears is implemented by backends that lay out the matrices whose products go back into the
// residual stream otherwise than those that read it.
type outputLinears interface {
	NewOutputLinear(parts, bias []HostTensor) (Linear, error)
}

// NewOutputLinear is NewLinear for AddLinear and for MLP's down projection. A backend over several
// ranks cuts such a matrix along its columns and others along their rows (Shoeybi et al.,
// Megatron-LM, 2019, section 3).
func NewOutputLinear(b Backend, parts, bias []HostTensor) (Linear, error) {
	if o, ok := b.(outputLinears); ok {
		return o.NewOutputLinear(parts, bias)
	}
	return b.NewLinear(parts, bias)
}
