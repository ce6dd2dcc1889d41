package executors

import (
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// scorePromised scores an instance for a frame that wants a promise: the one that its stream has, else that of the device of
// which the least is promised. One that would be late already is refused.
func (f *Fleet) scorePromised(j *Job, inst *Instance) (float64, *engine.Error) {
	if inst.Cost.Upper(j.Size(0).Alone()) > j.Submit.Deadline.Seconds() {
		defer inst.DoubtCost()
		return 0, engine.Errorf(engine.CodeDeadline, "a pass takes up to %.3f s, the deadline is %v", inst.Cost.Upper(j.Size(0).Alone()), j.Submit.Deadline)
	}
	if inst.Executor.Ledger.Holds(streamOf(j)) {
		return -1, nil
	}
	if err := inst.Crowded(f.Now); err != nil {
		return 0, refuseForNow(time.Second, "%v", err)
	}
	return inst.Executor.Ledger.Use(f.Seconds()), nil
}

// admitPromised asks an instance's executor to promise a frame its deadline, and says why it does not. If the model is not there it is
// loaded for the frames to come.
func (f *Fleet) admitPromised(j *Job, inst *Instance) *engine.Error {
	seconds, deadline := inst.Cost.Upper(j.Size(0).Alone()), j.Submit.Deadline.Seconds()
	r := inst.Executor.Ledger.Admit(f.Seconds(), streamOf(j), residency.Reservation{Model: inst.Info.Name, Cost: seconds, Deadline: deadline, Priority: max(j.Priority, 0)}, inst.Executor.LongestBlock(inst))
	switch others := inst.Executor.Loader.Loading() && !inst.Comes(); {
	case r != nil:
		f.Stats.RefusedUtilisation++
		return refuseForNow(time.Second, "%v", r)
	case !inst.Ready() && (others || !inst.Cost.Known()):
		return refuseForNow(secondsToDuration(inst.Missing()), "model %q is not there yet, and how long that will take is not known", inst.Info.Name)
	case inst.Missing()+seconds > deadline:
		return refuseForNow(secondsToDuration(inst.Missing()), "model %q is not there yet: it takes %.1f s to load", inst.Info.Name, inst.Missing())
	}
	return nil
}

// refuseForNow is a refusal for now.
func refuseForNow(after time.Duration, format string, args ...any) *engine.Error {
	err := engine.Errorf(engine.CodeOverloaded, format, args...)
	err.RetryAfter = min(max(after, time.Second), time.Minute)
	return err
}

// streamOf names the stream of a frame: those of different frontends are different.
func streamOf(j *Job) string { return strconv.Quote(j.Frontend.Name) + "/" + j.Submit.Stream }

// OlderFrame is the frame of the same stream that waits; nil if there is none.
func (f *Fleet) OlderFrame(j *Job) *Job {
	for _, e := range f.Executors {
		if older := e.OlderFrame(j); older != nil {
			return older
		}
	}
	return nil
}
