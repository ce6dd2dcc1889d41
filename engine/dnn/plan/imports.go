package plan

import "slices"

// orderImports puts what does nothing but lay out inputs before all other calls, so that it may be done when these are set,
// and returns both: of each input the calls that read it, or none where others read it too.
func orderImports(calls []*call, inputs, outputs []view) (ordered []*call, of [][]*call) {
	of = make([][]*call, len(inputs))
	readers := layoutCalls(calls, inputs, outputs)
	var first []*call
	for i, v := range inputs {
		of[i] = readers[v.at]
		for _, c := range of[i] {
			c.kind.(*mapped).input = true
		}
		first = append(first, of[i]...)
	}
	rest := slices.DeleteFunc(calls, func(c *call) bool {
		m, ok := c.kind.(*mapped)
		return ok && m.input
	})
	return append(first, rest...), of
}

// layoutCalls are the calls that read an input, by its storage, if all do nothing but copy it to where no call that does not
// read it has written before. Inputs that are outputs too have none.
func layoutCalls(calls []*call, inputs, outputs []view) map[*storage][]*call {
	readers := map[*storage][]*call{}
	for _, v := range inputs {
		if v.at != nil && v.elementCount() == v.at.elements {
			readers[v.at] = nil
		}
	}
	for _, v := range outputs {
		delete(readers, v.at)
	}
	written := map[*storage]*storage{} // by copies of this input alone; nil: by other calls
	for _, c := range calls {
		writes, reads := c.touchedViews()
		for _, v := range writes {
			delete(readers, v.at)
		}
		var of *storage
		if m, ok := c.kind.(*mapped); ok && m.program == copies {
			of = reads[0].at
			if by, known := written[c.dst.at]; known && by != of {
				delete(readers, of)
			}
			if list, ok := readers[of]; ok {
				readers[of] = append(list, c)
			}
		} else {
			for _, v := range reads {
				delete(readers, v.at)
			}
		}
		for _, v := range writes {
			if by, known := written[v.at]; known && by != of {
				of = nil
			}
			written[v.at] = of
		}
	}
	return readers
}

// extendLifetimes has what inputs are and become in its place from the first of these calls to the last one.
func extendLifetimes(list [][]*call, inputs []view) {
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
