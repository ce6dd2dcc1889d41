package kernels

// HostCopy describes a copy between a Buffer of a device and one of host memory: Count pieces of Bytes
// bytes each, which begin Stride bytes apart in both.
type HostCopy struct {
	Device, Host       Buffer
	DeviceOff, HostOff int64 // of the first piece
	Bytes, Stride      int64
	Count              int
}

// Offloader is a Backend that copies between its device and host memory beside what it computes, in the
// order of the calls. Sync does not wait for copies.
type Offloader interface {
	// AllocHost reserves host memory, for Save and Load alone.
	AllocHost(bytes int64) (Buffer, error)
	// Save enqueues a copy to host memory, of what was computed before it is called.
	Save(c HostCopy)
	// Load enqueues a copy from host memory.
	Load(c HostCopy)
	// Mark names the copies enqueued so far; what is computed after Await finds those of the mark done.
	Mark() uint64
	Await(mark uint64)
}
