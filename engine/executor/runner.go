package executor

import "github.com/prefillonly/prefillonly/engine/wire"

// Runner computes passes on one device. It is a plug-in point: package runnertest holds the suite
// that every implementation passes. All methods are called on one locked OS thread.
//
// An error that has a method DeviceLost() bool which is true says that no pass will succeed any
// more: the executor ends with it and says nothing of the pass, which the scheduler then runs
// elsewhere. Any other error is the end of one pass.
type Runner interface {
	// Info says what the runner can run; it does not change.
	Info() wire.ExecutorInfo
	// Begin starts a pass, whose items were checked against Info. The runner may have several passes
	// begun at a time; they are stepped in any order. An *engine.Error keeps its code on the way to
	// the client, any other error is internal.
	Begin(run *wire.Run) (Pass, error)
	// Close frees the device; all passes are closed by then.
	Close()
}

// Saver is a Runner that keeps pages in host memory, as Info's HostBlocks tells. Its Begin makes the
// loads of the run before it computes anything that needs them.
type Saver interface {
	// Save copies pages of the device to host memory, in order. It may return before that is done, but
	// whatever is begun, stepped or saved afterwards finds it done. An error costs the executor.
	Save(copies []wire.Copy) error
}

// Pass is the state of one pass between two layers.
type Pass interface {
	// Step computes the next layer (and, after the last one, the results), and reports whether it was
	// the last.
	Step() (done bool, err error)
	// Layer is the number of layers completed.
	Layer() int
	// Results are those of Run.Items, in order; valid once Step has reported done.
	Results() []wire.ItemResult
	// Close drops the pass, finished or not.
	Close()
}
