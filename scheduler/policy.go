package scheduler

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// policy orders the jobs that wait for one executor. The job with the smallest key runs next, ties
// by order of submission. A key does not change while the job waits: since all jobs age alike, what a
// policy gives for waiting goes into the key as the time of arrival.
type policy interface {
	key(j *job) float64
}

// calibratedPolicy is a policy that heeds what is in the cache now. Its key is that of a job of which
// nothing is cached; so many cached tokens take as much off the key of any job.
type calibratedPolicy interface {
	policy
	saved(m *cost.Model, cached int) float64
}

// agingPolicy is a policy whose order changes with time alone. Its jobs are kept in classes, by key
// within a class, and the first jobs of the classes are compared at each choice. The class may change
// when the job's resident prefix does: a change of the cache costs time for each job that it concerns.
type agingPolicy interface {
	policy
	class(j *job) int
	score(class int, key, now float64) float64 // smallest runs next
}

// preemptivePolicy is a policy under which a started pass may make way for the job that is next. The
// job needs so many seconds, the pause included; of the pass so many remain, of the whole that it is
// predicted to run; held is how long it has been held up already.
type preemptivePolicy interface {
	policy
	overtakes(needs, remaining, held, whole float64) bool
}

// policies lists the constructors by the name a user gives.
var policies = []struct {
	name string
	make func(Config) policy
}{
	{"fcfs", func(Config) policy { return fcfs{} }},
	{"sjf", func(Config) policy { return sjf{} }},
	{"srjf", func(Config) policy { return srjf{} }},
	{"srjf-calibrated", func(c Config) policy { return srjfCalibrated{c.Fairness} }},
	{"srpt", func(c Config) policy { return srpt{srjfCalibrated{c.Fairness}} }},
	{"hrrn", func(Config) policy { return hrrn{} }},
	{"priority", func(Config) policy { return byPriority{} }},
	{"deadline", func(Config) policy { return byDeadline{} }},
}

// Policies lists the names that Config.Policy may have.
func Policies() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

func newPolicy(c Config) (policy, error) {
	for _, p := range policies {
		if p.name == c.Policy {
			return p.make(c), nil
		}
	}
	return nil, fmt.Errorf("scheduler: policy is %q, want one of %s", c.Policy, strings.Join(Policies(), ", "))
}
