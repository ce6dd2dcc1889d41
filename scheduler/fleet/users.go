package fleet

import "github.com/prefillonly/prefillonly/scheduler/dispatch"

// home weighs an executor for a user (rendezvous hashing): the one with the most weight is the
// user's. When it dies its users alone move, and they come back when it does.
func home(user uint64, e *dispatch.Executor) float64 { return float64(mix(user ^ e.Salt)) }

// hashName spreads names, of users and executors, over all numbers.
func hashName(name string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h)
}

// mix spreads the entropy of x over all bits (the finaliser of SplitMix64, Steele et al., 2014):
// FNV's high bits hardly depend on the last bytes.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Homecoming lists the jobs that wait elsewhere, not started, and whose user's home is the lane's executor, and takes
// them out of their lanes.
func (f *Fleet) Homecoming(l *dispatch.Lane) (moving []*dispatch.Job) {
	for _, other := range f.poolOf(l).serving {
		if other == l || f.routing != RouteUser {
			continue
		}
		for _, j := range other.Jobs() {
			if user := hashName(j.Submit.User); !j.IsFrame() && j.Lease == nil && j.Submit.User != "" && home(user, l.Executor) > home(user, other.Executor) {
				moving = append(moving, j)
			}
		}
	}
	moving = dispatch.InOrder(moving)
	for _, j := range moving {
		j.Lane.Take(j)
	}
	return moving
}
