package cuda

import "github.com/prefillonly/prefillonly/kernels"

// TableBuffer is where a table's rows lie.
func TableBuffer(t kernels.Table) kernels.Buffer { return t.(table).weights }
