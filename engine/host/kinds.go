package host

import (
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// kind is what a model computes. Models of one kind share their working memory.
type kind int

const (
	prompts  kind = iota // LLMs
	encoders             // of texts
	networks             // DNNs
	kinds
)

// source is what a model's files say of it. It is read by any goroutine.
type source interface {
	// open describes the model to the device, on its thread. The model has no weights or memory yet.
	open(h *Host, m Model) (tenant, error)
	// unchanged says whether the files at the path still say the same.
	unchanged(path string) bool
	// forget says that the model's weights are not to be compared with others' any more.
	forget()
}

// tenant is a model of any kind on the device.
type tenant interface {
	// Info describes what the model can run; its name, weights and cost are the host's.
	Info() wire.ModelInfo
	Chunks() []store.Info
	LoadChunk(i int) error // after an error it is not resident
	DropChunk(i int)       // no pass of the model is open
	Ready() bool           // passes may begin
	Close()                // no pass is open

	kind() kind
	// demand is what the model asks of the device's memory, its weights aside.
	demand() demand
	// place gives the model memory: an area of its kind, and pages for what it caches.
	place(a *area, pages, hostPages int) error
	// use lets its passes compute in another area; none is open.
	use(a *area) error
	// begin checks a run and starts its pass.
	begin(run *wire.Run) (executor.Pass, error)
	// measure goes on with finding out what passes cost, once the model is loaded for the first time, and reports
	// whether that is done. Without a cost of its own the scheduler learns it from passes.
	measure(h *Host, m *hosted) (done bool, err error)
	// fields tell a log of the model's memory.
	fields() []zap.Field
}

// saver is a tenant that keeps pages in host memory.
type saver interface {
	Save(copies []wire.Copy) error
}
