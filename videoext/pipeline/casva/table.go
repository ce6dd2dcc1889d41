package casva

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Table is what a policy is trained on. It may choose each setting of Ladders, and none else.
type Table struct {
	Ladders   [][]int
	Intervals []Interval
}

// Interval is one of a recording.
type Interval struct {
	Content []float64
	Trials  []Trial // of all configurations of the ladders, whose last knob goes fastest
}

// Trial is what a configuration takes and gives.
type Trial struct{ Cost, Accuracy, Sure float64 }

// choiceIndex is the place of a choice in Trials.
func (t *Table) choiceIndex(choice []int) (i int) {
	for knob, place := range choice {
		i = i*len(t.Ladders[knob]) + place
	}
	return i
}

// allChoices are all, in the order of Trials.
func (t *Table) allChoices() [][]int {
	all := [][]int{{}}
	for _, l := range t.Ladders {
		var more [][]int
		for _, c := range all {
			for place := range l {
				more = append(more, append(slices.Clone(c), place))
			}
		}
		all = more
	}
	return all
}

// RecordTable measures a table on a pipeline.Sensed.
func RecordTable(lab *pipeline.Lab, ladders [][]int, say func(interval, of int)) (*Table, error) {
	t := &Table{Ladders: ladders}
	for interval := range lab.Intervals() {
		say(interval, lab.Intervals())
		content, err := lab.Sense(interval)
		if err != nil {
			return nil, err
		}
		one := Interval{Content: content}
		for _, choice := range t.allChoices() {
			accuracy, cost, r, err := lab.Try(interval, t.choiceConfig(choice))
			if err != nil {
				return nil, err
			}
			one.Trials = append(one.Trials, Trial{cost, accuracy, lab.Pipeline.(pipeline.Sensed).Sure(r)})
		}
		t.Intervals = append(t.Intervals, one)
	}
	return t, nil
}

func (t *Table) choiceConfig(choice []int) oneadapt.Config {
	c := make(oneadapt.Config, len(choice))
	for i, place := range choice {
		c[i] = t.Ladders[i][place]
	}
	return c
}

// Profile is what each configuration takes and gives in the mean.
func (t *Table) Profile() (all []pipeline.Tried) {
	dearest, n := t.dearestCost(), float64(len(t.Intervals))
	for i, choice := range t.allChoices() {
		one := pipeline.Tried{Config: t.choiceConfig(choice)}
		for _, interval := range t.Intervals {
			one.Accuracy += interval.Trials[i].Accuracy / n
			one.Cost += interval.Trials[i].Cost / dearest / n
		}
		all = append(all, one)
	}
	return all
}

//go:embed streets.csv
var streetTable []byte

// StreetTable is of the drawn streets that the package casva's policy was trained on.
func StreetTable() (*Table, error) { return ReadTable(bytes.NewReader(streetTable)) }

// Write writes a table as CSV: a first line of the ladders, then one for each interval's content, and one for each of its trials.
func (t *Table) Write(to io.Writer) error {
	out := csv.NewWriter(to)
	line := []string{"ladders"}
	for _, l := range t.Ladders {
		line = append(line, strings.Trim(fmt.Sprint(l), "[]"))
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for _, one := range t.Intervals {
		if err := out.Write(formatNumbers("interval", one.Content...)); err != nil {
			return err
		}
		for _, trial := range one.Trials {
			if err := out.Write(formatNumbers("trial", trial.Cost, trial.Accuracy, trial.Sure)); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func formatNumbers(kind string, values ...float64) []string {
	line := []string{kind}
	for _, v := range values {
		line = append(line, strconv.FormatFloat(v, 'g', 5, 64))
	}
	return line
}

// ReadTable reads what Write wrote.
func ReadTable(from io.Reader) (*Table, error) {
	in := csv.NewReader(from)
	in.FieldsPerRecord = -1
	lines, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	t := &Table{}
	for i, line := range lines {
		if err := t.parseLine(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return t, t.check()
}

// parseLine takes in one.
func (t *Table) parseLine(line []string) error {
	if line[0] == "ladders" {
		for _, text := range line[1:] {
			var ladder []int
			for _, field := range strings.Fields(text) {
				setting, err := strconv.Atoi(field)
				if err != nil {
					return err
				}
				ladder = append(ladder, setting)
			}
			t.Ladders = append(t.Ladders, ladder)
		}
		return nil
	}
	var values []float64
	for _, field := range line[1:] {
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	switch {
	case line[0] == "interval" && len(values) == Content:
		t.Intervals = append(t.Intervals, Interval{Content: values})
	case line[0] == "trial" && len(values) == 3 && len(t.Intervals) > 0:
		one := &t.Intervals[len(t.Intervals)-1]
		one.Trials = append(one.Trials, Trial{values[0], values[1], values[2]})
	default:
		return fmt.Errorf("%q with %d numbers is neither ladders, interval nor trial", line[0], len(values))
	}
	return nil
}

// check says whether every interval has all trials.
func (t *Table) check() error {
	want := len(t.allChoices())
	if len(t.Ladders) == 0 || len(t.Intervals) == 0 {
		return fmt.Errorf("a table of %d knobs and %d intervals", len(t.Ladders), len(t.Intervals))
	}
	for i, one := range t.Intervals {
		if len(one.Trials) != want {
			return fmt.Errorf("interval %d has %d trials, want %d", i, len(one.Trials), want)
		}
	}
	return nil
}
