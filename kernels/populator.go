package kernels

// Populator is a Backend on which the first write to memory is dear, because the system backs memory
// only then: of a virtual machine whose host has to find it too, 2 MiB may take 9 ms.
type Populator interface {
	// Populate asks for b to be backed up to byte `to` and some way beyond, in the background. It does not wait,
	// and changes nothing but the time of later writes.
	Populate(b Buffer, to int64)
}
