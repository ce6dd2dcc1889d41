package queue

import "maps"

// Users paces the jobs of each user for fairness among users: under every policy that heeds
// arrival, a job ages as if it had come no sooner than the user's job before it could have been
// done, were the executor the user's alone. One who sends a thousand jobs at once so stands behind
// another's single job with all but the few that the executor would have reached by then (start-time
// fair queueing, Goyal, Vin and Chen, 1996, with real time as the virtual time).
type Users struct {
	next map[string]float64 // when the user's next job may begin to age, seconds
}

// NewUsers makes Users of whom nobody has sent anything.
func NewUsers() Users { return Users{next: map[string]float64{}} }

// PaceUser returns from when a job of so many predicted seconds ages.
func (u *Users) PaceUser(user string, arrival, seconds float64) float64 {
	if user == "" {
		return arrival
	}
	from := max(arrival, u.next[user])
	u.next[user] = from + seconds
	return from
}

// Prune forgets users whose next job is not held back any more.
func (u *Users) Prune(now float64) {
	maps.DeleteFunc(u.next, func(_ string, next float64) bool { return next <= now })
}
