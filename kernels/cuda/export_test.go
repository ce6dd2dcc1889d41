package cuda

import "github.com/prefillonly/prefillonly/kernels"

// Trial is trial, for the tests that need a device which this package's own cannot import.
var Trial = trial

// TableBuffer is where a table's rows lie.
func TableBuffer(t kernels.Table) kernels.Buffer { return t.(*table).Buffer }
