package plan

import "slices"

// imports puts what does nothing but lay out inputs before all other calls, so that it may be done when these are set,
// and returns both: of each input the calls that read it, or none where others read it too.
func imports(calls []*call, inputs, outputs []view) (ordered []*call, of [][]*call) {
	of = make([][]*call, len(inputs))
	var first []*call
	for i, v := range inputs {
		if !slices.ContainsFunc(outputs, func(o view) bool { return o.at == v.at }) {
			of[i] = layouts(calls, v)
		}
		for _, c := range of[i] {
			c.kind.(*mapped).input = true
		}
		first = append(first, of[i]...)
	}
	rest := slices.DeleteFunc(calls, func(c *call) bool { return slices.Contains(first, c) })
	return append(first, rest...), of
}

// layouts are the calls that read an input, if all do nothing but copy it to where nothing was written before.
func layouts(calls []*call, input view) (list []*call) {
	if input.at == nil || input.elements() != input.at.elements {
		return nil
	}
	written := map[*storage]bool{} // by other calls
	for _, c := range calls {
		writes, reads := c.touches()
		on := func(v view) bool { return v.at == input.at }
		if slices.ContainsFunc(writes, on) {
			return nil
		}
		if !slices.ContainsFunc(reads, on) {
			for _, v := range writes {
				written[v.at] = true
			}
			continue
		}
		if m, ok := c.kind.(*mapped); !ok || m.program != copies || written[c.dst.at] {
			return nil
		}
		list = append(list, c)
	}
	return list
}

// together has what inputs are and become in its place from the first of these calls to the last one.
func together(list [][]*call, inputs []view) {
	count := 0
	for _, calls := range list {
		count += len(calls)
	}
	keep := func(v view) {
		if s := v.at; s != nil {
			s.first, s.last = 0, max(s.last, count)
		}
	}
	for i, calls := range list {
		if len(calls) > 0 {
			keep(inputs[i])
		}
		for _, c := range calls {
			keep(c.dst)
		}
	}
}
