package queue

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// Policy orders the jobs that wait in one queue. The job with the smallest key runs next, ties by order
// of submission. A key does not change while the job waits: since all jobs age alike, what a policy
// gives for waiting goes into the key as the time of arrival. Keys of different queues are in units of
// different models and say nothing of each other: Weigh is for that.
type Policy interface {
	Key(j *Job, m *cost.Model) float64
	// Weigh gives by what the first jobs of several queues are compared: the smallest runs next. The
	// rank is the key's, with what the cache saves taken off.
	Weigh(j *Job, rank float64, s Scale) float64
}

// Scale is what makes the ranks of different queues comparable.
type Scale struct {
	Now   float64 // seconds
	Rate  float64 // seconds a unit of the queue's model
	Load  float64 // seconds that are still to be spent on loading the model, a job's part of them
	Aging float64 // seconds of work that a second of waiting outweighs; the same for all queues
}

// Calibrated is a policy that heeds what is in the cache now. Its key is that of a job of which
// nothing is cached; so many cached tokens take as much off the key of any job.
type Calibrated interface {
	Policy
	Saved(m *cost.Model, cached int) float64
}

// Aging is a policy whose order changes with time alone. Its jobs are kept in classes, by key within a
// class, and the first jobs of the classes are compared at each choice. The class may change when the
// job's resident prefix does: a change of the cache costs time for each job that it concerns.
type Aging interface {
	Policy
	Class(j *Job, m *cost.Model) int
	Score(class int, key, now float64) float64 // smallest runs next
}

// Preemptive is a policy under which a started pass may make way for the job that is next. The job
// needs so many seconds, the pause included; of the pass so many remain, of the whole that it is
// predicted to run; held is how long it has been held up already.
type Preemptive interface {
	Policy
	Overtakes(needs, remaining, held, whole float64) bool
}

// policies lists the constructors by the name a user gives. Fairness is in units a second of waiting.
var policies = []struct {
	name string
	make func(fairness float64) Policy
}{
	{"fcfs", func(float64) Policy { return fcfs{} }},
	{"sjf", func(float64) Policy { return sjf{} }},
	{"srjf", func(float64) Policy { return srjf{} }},
	{"srjf-calibrated", func(lambda float64) Policy { return srjfCalibrated{lambda} }},
	{"srpt", func(lambda float64) Policy { return srpt{srjfCalibrated{lambda}} }},
	{"hrrn", func(float64) Policy { return hrrn{} }},
	{"priority", func(float64) Policy { return byPriority{} }},
	{"deadline", func(float64) Policy { return byDeadline{} }},
}

// Policies lists the names that NewPolicy knows.
func Policies() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

// NewPolicy makes the policy of a name. Those that weigh waiting against work take a second of it for so many
// units.
func NewPolicy(name string, fairness float64) (Policy, error) {
	for _, p := range policies {
		if p.name == name {
			return p.make(fairness), nil
		}
	}
	return nil, fmt.Errorf("scheduler: policy is %q, want one of %s", name, strings.Join(Policies(), ", "))
}

// InSeconds says whether Weigh is in seconds of work under a policy.
func InSeconds(p Policy) bool {
	_, ok := p.(interface{ seconds() })
	return ok
}

// inSeconds is of policies whose ranks are units of work.
type inSeconds struct{}

// Weigh implements Policy.
func (inSeconds) Weigh(_ *Job, rank float64, s Scale) float64 { return s.Rate*rank + s.Load }

func (inSeconds) seconds() {}
