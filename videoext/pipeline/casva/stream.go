package casva

import (
	"math"
	"math/rand/v2"
)

// Stream is a recording of a table that is sent over a link, interval by interval.
type Stream struct {
	table   *Table
	at      int
	link    Link
	rate    float64 // of the link, in an interval
	history *History
	change  func(rate float64) float64 // of the link from one interval to the next
}

// BeginStream starts at an interval of a table, on a link whose rate is a part of what the intervals cost at the dearest configuration in the mean. Change nil: it stays.
func BeginStream(t *Table, at int, share float64, change func(float64) float64) *Stream {
	rate := share * t.dearestCost()
	return &Stream{table: t, at: at, rate: rate, history: BeginHistory(len(t.Ladders), rate), change: change}
}

// dearestCost is what an interval costs with the last setting of all ladders, in the mean.
func (t *Table) dearestCost() (mean float64) {
	for _, one := range t.Intervals {
		mean += one.Trials[len(one.Trials)-1].Cost / float64(len(t.Intervals))
	}
	return mean
}

// cheapestShare is what one costs with the first ones, as a part of that.
func (t *Table) cheapestShare() (share float64) {
	for _, one := range t.Intervals {
		share += one.Trials[0].Cost / float64(len(t.Intervals))
	}
	return share / t.dearestCost()
}

// State is what the policy knows before the next interval.
func (s *Stream) State() []float64 { return s.history.State(s.currentInterval().Content) }

func (s *Stream) currentInterval() *Interval { return &s.table.Intervals[s.at%len(s.table.Intervals)] }

// The reward is the paper's for low latency: accuracy, less what the delay is beyond the interval itself, and less one for each interval that is left out. The delay counts up to a
// bound, without which streams over links that carry next to nothing would be most of what is learned.
const (
	accuracyWeight = 5
	longest        = 10 // intervals
)

// Send sends the next interval by a choice, and leaves out those behind it that find the link jammed, which are trials of nothing.
func (s *Stream) Send(p *Policy, choice []int) (reward float64, trials []Trial) {
	trial := s.currentInterval().Trials[s.table.choiceIndex(choice)]
	trials = append(trials, trial)
	delay, lag := s.link.Send(trial.Cost, s.rate)
	s.history.Sent(p, choice, trial.Cost, s.rate, lag, trial.Sure)
	reward = accuracyWeight*trial.Accuracy - min(max(delay-1, 0), longest)
	s.advanceInterval()
	for s.link.Jammed(s.rate) {
		_, s.history.Lag = s.link.Send(0, s.rate)
		trials = append(trials, Trial{})
		reward--
		s.advanceInterval()
	}
	return reward, trials
}

func (s *Stream) advanceInterval() {
	s.at++
	if s.change != nil {
		s.rate = s.change(s.rate)
	}
}

// newWanderingRate is a link that now and then has another rate.
func newWanderingRate(t *Table, r *rand.Rand) func(float64) float64 {
	return func(rate float64) float64 {
		if r.Float64() < 0.1 {
			return t.anyShare(r) * t.dearestCost()
		}
		return rate
	}
}

// anyShare is the rate of a link, from twice what the cheapest configuration takes to more than the dearest one does, as likely between any number and its double.
func (t *Table) anyShare(r *rand.Rand) float64 {
	least := 2 * t.cheapestShare()
	return least * math.Pow(1.3/least, r.Float64())
}

// Chooser is a way to choose; a Policy's Choose is one.
type Chooser func(state []float64) []int

// JudgePolicy is the mean reward, accuracy, and cost as a part of the dearest configuration's, of an interval of a table that is sent once over a link that stays as it is.
func JudgePolicy(t *Table, p *Policy, choose Chooser, share float64) (reward, accuracy, cost float64) {
	s, sent := BeginStream(t, 0, share, nil), 0
	for sent < len(t.Intervals) {
		got, trials := s.Send(p, choose(s.State()))
		reward, sent = reward+got, sent+len(trials)
		for _, trial := range trials {
			accuracy, cost = accuracy+trial.Accuracy, cost+trial.Cost
		}
	}
	n := float64(sent)
	return reward / n, accuracy / n, cost / n / t.dearestCost()
}
