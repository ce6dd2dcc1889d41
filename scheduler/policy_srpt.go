package scheduler

// srpt is srjfCalibrated with pre-emption: a running pass makes way for the next waiting job if that
// is shorter than what remains of the pass, and goes on before any job that is not.
//
// While it waits a job is overtaken as under srjfCalibrated. Once started it is held up, in all, no
// longer than it runs, and by the one job more that was running when that time was over: under load
// pre-emption doubles a long job's running time at most.
type srpt struct{ srjfCalibrated }

// preemptMargin is by how many tokens a job must be shorter than what remains of a pass, so that a
// pause is worth the layer it waits for.
const preemptMargin = 128

func (srpt) overtakes(cost, remaining, held, whole float64) bool {
	return cost+preemptMargin < remaining && held < whole
}
