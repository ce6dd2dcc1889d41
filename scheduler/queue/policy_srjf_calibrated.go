package queue

import "github.com/prefillonly/prefillonly/scheduler/cost"

// srjfCalibrated is shortest remaining job first with continuous JCT calibration (PrefillOnly,
// Algorithm 1): the score jct(n_input, n_cached now) - lambda * waited, in cache-miss tokens. Its
// key leaves out lambda * now, which all jobs share.
//
// Lambda is in tokens a second, as in the paper, so what fairness costs in time depends on the
// executor: on one of v tokens a second, a second of waiting outweighs lambda/v seconds of work. 500
// are 0.065 s where a token takes 130 us, as on the machine of the paper's largest model, and 0.45 s
// where it takes 0.9 ms; from lambda = v on the order is nearly that of arrival. With a profile a
// token is what one costs by that, so that attention counts as well.
//
// With lambda > 0 no job starves. Let c be what a job costs with nothing cached, beside the base. It is
// overtaken only by jobs that arrive less than c/lambda seconds after it, whatever the cache does:
// the key of any later one is larger. So it waits no longer than it takes to do what was there when it
// came and what comes in the c/lambda seconds after, which is the same on a fast executor and a slow one: 28 s
// for 14,000 tokens.
//
// Between the queues of one executor the first jobs are compared in seconds: jct + load - aging * waited, with
// one aging for all of them (Scale.Aging). Were it each queue's own lambda times its seconds a token, one of slow
// tokens that is overloaded would age faster than the others for ever, and starve them. So a job is overtaken by jobs
// of other queues only if those arrive less than C/aging seconds after it, where C is the seconds, nothing cached and
// the whole load included, that it or a job before it in its own queue takes.
type srjfCalibrated struct{ lambda float64 }

func (p srjfCalibrated) Key(j *Job, m *cost.Model) float64 {
	return m.Units(j.Size(0)) + p.lambda*j.Aged
}

func (srjfCalibrated) seconds() {}

func (srjfCalibrated) Saved(m *cost.Model, cached int) float64 {
	return m.Extra(cost.WorkOf(cached, 0))
}

func (p srjfCalibrated) Weigh(j *Job, rank float64, s Scale) float64 {
	return s.Rate*(rank-p.lambda*j.Aged) + s.Load - s.Aging*(s.Now-j.Aged)
}
