package scheduler

// srpt is srjfCalibrated with pre-emption: a pass makes way for a job that is shorter than what
// remains of it. The bound on overtaking is srjfCalibrated's; a pass is paused at most maxPauses
// times.
type srpt struct{ srjfCalibrated }

func (p srpt) passKey(remaining, arrival float64) float64 { return remaining + p.lambda*arrival }
