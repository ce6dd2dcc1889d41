package scheduler

// srjfCalibrated is shortest remaining job first with continuous JCT calibration (PrefillOnly,
// Algorithm 1): the score jct(n_input, n_cached now) - lambda * waited, in cache-miss tokens. Its
// key leaves out lambda * now, which all jobs share.
//
// With lambda > 0 no job starves: a job with cost c at its arrival is overtaken only by jobs that
// arrive less than c/lambda seconds after it, as the key of any later one is larger.
type srjfCalibrated struct{ lambda float64 }

func (p srjfCalibrated) key(j *job) float64 {
	return j.executor.cost.tokens(len(j.seq), 0) + p.lambda*j.aged
}

func (srjfCalibrated) saved(cost *costModel, cached int) float64 { return cost.extra(cached, 0) }
