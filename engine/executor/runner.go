package executor

import "github.com/prefillonly/prefillonly/engine/wire"

// Runner computes passes of the models that a device hosts. It is a plug-in point: package runnertest
// holds the suite that every implementation passes. All methods are called on one locked OS thread.
//
// An error that has a method DeviceLost() bool which is true says that no pass will succeed any
// more: the executor ends with it and says nothing of the pass or the load, which the scheduler then
// has done elsewhere. Any other error is the end of one pass or one load.
type Runner interface {
	// Info says what the runner can run and which weights it holds; the result is the caller's to keep. It
	// changes with Load (also in other models) and Drop, and where something is done to the runner through
	// Config.Changes.
	Info() wire.ExecutorInfo
	// Load goes on with bringing a piece of weights onto the device, for a model that has it, and reports whether
	// it is done: the piece is there, and all that is to be done before passes of the model are begun. Passes may be
	// begun and stepped before it is called again. The piece is one of Info's; one that is there already is left as
	// it is.
	Load(model string, weight uint32) (done bool, err error)
	// Drop frees pieces of weights; no open pass is of a model that has one.
	Drop(weights []uint32)
	// Begin checks a run and starts its pass, which gets its work memory. It refuses a model whose weights
	// are not all there. The runner may have several passes begun at a time. One is begun, or stepped
	// after another one, only where that other has ended or is at a boundary; a nested one also
	// elsewhere. A pass of Run.Lowest is to be at a boundary wherever it can; another one that finds no room beside it is
	// refused with CodeOverloaded, and begun again when the lowest one is closed. An *engine.Error keeps its code on the way to the client, any other error is internal.
	Begin(run *wire.Run) (Pass, error)
	// Close frees the device; all passes are closed by then.
	Close()
}

// Load brings a whole piece of weights onto a runner's device.
func Load(r Runner, model string, weight uint32) error {
	for {
		if done, err := r.Load(model, weight); done || err != nil {
			return err
		}
	}
}

// Saver is a Runner that keeps pages in host memory, as TokenLimits.HostBlocks tells. Its Begin makes the
// loads of the run before it computes anything that needs them.
type Saver interface {
	// Save copies pages of a model from the device to host memory, in order. It may return before that is
	// done, but whatever is begun, stepped or saved afterwards finds it done. An error, such as of a page
	// that there is not, costs the executor.
	Save(model string, copies []wire.Copy) error
}

// Preparer is a Pass that may need something before its first step which takes long, and not the device.
type Preparer interface {
	// Prepare is what makes that, nil if there is nothing to be made. It is called once by another goroutine, and until it
	// has returned nothing is asked of the pass; of the runner anything but Close. What is wrong then is told as it is of
	// other passes.
	Prepare() func()
}

// Pass is a pass on its way.
type Pass interface {
	// Step computes the next part of the pass, which is short (a chunk of rows of one layer; at the end,
	// results), and reports whether it was the last. It returns when the device has computed it.
	Step() (done bool, err error)
	// Boundary says that other passes may be begun and stepped before the next step of this one, as before
	// its first one: between two layers.
	Boundary() bool
	// Share is how much of the pass is done, by the time that it is to take: 0 before the first step, 1
	// after the last one.
	Share() float64
	// Results are those of Run.Items, in order; valid once Step has reported done.
	Results() []wire.ItemResult
	// Close drops the pass, finished or not, at a boundary or not.
	Close()
}
