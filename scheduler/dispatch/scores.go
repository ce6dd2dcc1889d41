package dispatch

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// weights names the model and its weights.
func (l *Lane) weights() string { return l.Info.Name + "\x00" + l.Info.Fingerprint }

// sharesScores says that the next pass is asked for the scores of all positions, which others may ask for too.
func (j *Job) sharesScores() bool { return j.AsksScores() && j.Asks.Ask.PromptFrom == 0 }

// findScores finds what is known of the positions of a job's prompt.
func (l *Lane) findScores(j *Job, anew bool) {
	l.shared.Scores.Find(&j.Scores, l.weights(), j.Chain, j.Asks.Ask.PromptTop, anew)
	j.Known = len(j.Scores.Known) * j.ChainOf
}

// Keep makes the blocks that a job's pass has filled matchable, and keeps what it has found of a prompt's positions.
func (j *Job) Keep(found engine.Output) {
	l := j.Lane
	l.Cache.Commit(&j.Job, j.Submit.Salt)
	if out, ok := found.(*engine.TokenOutput); ok && j.sharesScores() {
		l.keepScores(j, out.Prompt)
	}
}

// keepScores keeps scores of a job's prompt, and has the jobs that wait and begin as it does read them.
func (l *Lane) keepScores(j *Job, found []engine.PromptScore) {
	s := l.shared
	var served []*Job
	for _, r := range s.Scores.Add(l.weights(), j.Chain, j.ChainOf, max(j.Known, 1), j.Asks.Ask.PromptTop, found) {
		served = append(served, r.Of.(*Job))
	}
	for _, j := range InOrder(served) {
		l := j.Lane
		l.QueueOf(j.Class).Change(&j.Job, func() {
			l.findScores(j, false)
			j.Predicted = l.Expected(j)
		})
		s.Scores.Await(&j.Scores)
	}
}

// awaited is how many leading blocks of a job others of its class wait there to have scored, as its pass will.
func (l *Lane) awaited(j *Job) int {
	if !j.sharesScores() {
		return 0
	}
	return queue.CommonBlocks(j.Chain, l.shared.Scores.Companion(&j.Scores, func(of any) bool { return of.(*Job).Lane == l && of.(*Job).Class == j.Class }))
}

// scoredBy is how many leading blocks a job will read when another's pass has scored what they have in common.
func (j *Job) scoredBy(other *Job) int {
	if !j.sharesScores() || !other.sharesScores() || other.Asks.Ask.PromptTop < j.Asks.Ask.PromptTop {
		return 0
	}
	return j.UsableOf(queue.CommonBlocks(other.Chain, j.Chain) * j.ChainOf)
}
