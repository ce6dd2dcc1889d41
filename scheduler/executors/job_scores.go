package executors

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// weightsKey names the model and its weights.
func (inst *Instance) weightsKey() string { return inst.Info.Name + "\x00" + inst.Info.Fingerprint }

// sharesScores says that the next pass is asked for the scores of all positions, which others may ask for too.
func (j *Job) sharesScores() bool { return j.AsksScores() && j.Asks.Ask.PromptFrom == 0 }

// findScores finds what is known of the positions of a job's prompt.
func (inst *Instance) findScores(j *Job, anew bool) {
	inst.shared.Scores.FindScores(&j.Scores, inst.weightsKey(), j.Chain, j.Asks.Ask.PromptTop, anew)
	j.Known = len(j.Scores.Known) * j.ChainOf
}

// KeepOutput makes the blocks that a job's pass has filled matchable, and keeps what it has found of a prompt's positions.
func (j *Job) KeepOutput(found engine.Output) {
	inst := j.Instance
	inst.Cache.CommitPages(&j.Job, j.Submit.CacheSalt())
	if out, ok := found.(*engine.TokenOutput); ok && j.sharesScores() {
		inst.keepScores(j, out.Prompt)
	}
}

// keepScores keeps scores of a job's prompt, and has the jobs that wait and begin as it does read them.
func (inst *Instance) keepScores(j *Job, found []engine.PromptScore) {
	s := inst.shared
	var served []*Job
	for _, r := range s.Scores.AddScores(inst.weightsKey(), j.Chain, j.ChainOf, max(j.Known, 1), j.Asks.Ask.PromptTop, found) {
		served = append(served, r.Of)
	}
	for _, j := range SortBySubmission(served) {
		inst := j.Instance
		inst.QueueOf(j.Class).Change(&j.Job, func() {
			inst.findScores(j, false)
			j.Predicted = inst.ExpectedWork(j)
		})
		s.Scores.AwaitScores(&j.Scores)
	}
}

// awaitedBlocks is how many leading blocks of a job others of its class wait there to have scored, as its pass will.
func (inst *Instance) awaitedBlocks(j *Job) int {
	if !j.sharesScores() {
		return 0
	}
	return queue.CommonBlocks(j.Chain, inst.shared.Scores.FindCompanion(&j.Scores, func(o *Job) bool { return o.Instance == inst && o.Class == j.Class }))
}

// scoredBy is how many leading blocks a job will read when another's pass has scored what they have in common.
func (j *Job) scoredBy(other *Job) int {
	if !j.sharesScores() || !other.sharesScores() || other.Asks.Ask.PromptTop < j.Asks.Ask.PromptTop {
		return 0
	}
	return j.UsableOf(queue.CommonBlocks(other.Chain, j.Chain) * j.ChainOf)
}
