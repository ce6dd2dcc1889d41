package cuda

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

var (
	_ kernels.Networks = (*Backend)(nil)
	_ kernels.Preparer = (*Backend)(nil)
)

// ofNetworks is what the operations of networks need of the backend.
type ofNetworks struct{ b *Backend }

func (n ofNetworks) Alloc(bytes int64) (kernels.Buffer, error) { return n.b.Alloc(bytes) }

func (n ofNetworks) Write(b kernels.Buffer, off int64, src []byte) { n.b.Write(b, off, src) }

func (n ofNetworks) Address(b kernels.Buffer) (at uint64, ok bool) {
	m, ok := b.(*buffer)
	if !ok || m.at == 0 || m.device != n.b.device {
		return 0, false
	}
	return uint64(m.at), true
}

func (n ofNetworks) Scratch(bytes int64) uint64 { return uint64(n.b.arena.allocBytes(n.b, bytes)) }

func (n ofNetworks) Launch(kernel string, blocks, threads int, words []uint64) {
	n.b.device.Launch(kernel, [2]int{blocks, 1}, threads, words...)
}

func (n ofNetworks) Read(dst []byte, b kernels.Buffer, off int64) { n.b.Read(dst, b, off) }

func (n ofNetworks) Sync() error { return n.b.Sync() }

func (n ofNetworks) Convolutions() *cudnn.Convolutions { return n.b.convolutions() }

func (n ofNetworks) Fail(err error) { n.b.fail("%w", err) }

// NewFilter packs weights for both directions.
func (b *Backend) NewFilter(s kernels.ConvSpec, weight kernels.HostTensor) (kernels.Filter, error) {
	f, err := b.networkOperations.NewFilter(s, weight)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return f, nil
}
