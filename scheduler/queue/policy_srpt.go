package queue

// srpt is srjfCalibrated with pre-emption: a running pass makes way for the next waiting job if that
// is shorter than what remains of the pass, and goes on before any job that is not.
//
// While it waits a job is overtaken as under srjfCalibrated. Once started it is held up, in all, no
// longer than it runs, and by the one job more that was running when that time was over: under load
// pre-emption doubles a long job's running time at most.
type srpt struct{ srjfCalibrated }

func (srpt) Overtakes(needs, remaining, held, whole float64) bool {
	return needs < remaining && held < whole
}
