package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Drift says how a merged network is watched on video streams. A value that is 0 is the default.
type Drift struct {
	Sample float64 // part of the frames that the original looks at, too
	Rate   float64 // of them, at most so many a second
	Target float64 // least F1; by default the merge's
}

// What a Drift leaves out.
const (
	DefaultDriftSample = 0.003
	DefaultDriftRate   = 1
)

// driftKeys are the keys of drift, with the pointer to set.
var driftKeys = []mapKey[Drift]{
	{"sample", func(d *Drift) any { return &d.Sample }},
	{"rate", func(d *Drift) any { return &d.Rate }},
	{"target", func(d *Drift) any { return &d.Target }},
}

// String is d as a map of YAML on one line; empty of the zero value.
func (d *Drift) String() string {
	var parts []string
	for _, k := range driftKeys {
		if value := k.field(d).(*float64); *value != 0 {
			parts = append(parts, k.name+": "+showValue(value))
		}
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func decodeDrift(to *Drift, n ast.Node) error {
	return decodeMap(to, n, driftKeys, "{sample: 0.003, target: 0.95}")
}

// OriginalSuffix is behind the name of a merged network in that of the network as it was.
const OriginalSuffix = "@original"

// checkMerge says what does not go with a merge, or without one.
func (m *Model) checkMerge() error {
	switch d := m.Drift; {
	case m.Merged == "" && d != Drift{}:
		return fmt.Errorf("drift is of a merged network: set merged to the directory of the merge")
	case m.Merged != "" && m.Pipeline != "":
		return fmt.Errorf("merged is of one network, and pipeline %s of several", m.Pipeline)
	case m.Merged != "" && m.Task == TaskGenerate:
		return fmt.Errorf("invalid task generate: merged is of networks")
	case !(d.Sample >= 0 && d.Sample <= 1):
		return fmt.Errorf("invalid drift: sample %v: want above 0 and at most 1", d.Sample)
	case !(d.Rate >= 0 && d.Rate <= 1000):
		return fmt.Errorf("invalid drift: rate %v: want above 0 and at most 1000", d.Rate)
	case !(d.Target >= 0 && d.Target <= 1):
		return fmt.Errorf("invalid drift: target %v: want above 0 and at most 1", d.Target)
	}
	return nil
}
