package dispatch

// lease gets a job its pages. The first job that finds too few is the lane's blocked one: until
// it has them, no other job gets pages for more than one pass, so those held run out and it does
// not starve.
func (l *Lane) lease(j *Job) bool {
	if j.Lease != nil {
		return true
	}
	found, ok := l.acquire(j)
	for !ok && j.Class == Live && l.spare() {
		found, ok = l.acquire(j)
	}
	if !ok {
		l.blocked[j.Class], j.blocked = j, true
		return false
	}
	if j.blocked {
		l.blocked[j.Class], j.blocked = nil, false
	}
	if j.Generated() == 0 {
		j.Hits = found
	}
	return true
}

// acquire asks the lane's cache for a job's pages. A lowest job leaves those to others who wait for some.
func (l *Lane) acquire(j *Job) (found int, ok bool) {
	own := l.OwnPages(j)
	if j.Class == Lowest && own > 0 && l.blocked[Live] != nil {
		return 0, false
	}
	q := l.QueueOf(j.Class)
	return l.Cache.Lease(&j.Job, own, max(q.Shared(j.Chain, j.Cached), l.awaited(j)), j.Class == Lowest, q)
}

// Release gives a job's pages back.
func (j *Job) Release() {
	if j.Lane != nil {
		j.Lane.Cache.Release(&j.Job)
	}
}
