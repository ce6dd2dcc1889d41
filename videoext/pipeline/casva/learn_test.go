package casva

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

// easy is a table in which a setting of the first knob is accurate if the sensor tells much, and the other one if it tells little; the second knob only costs.
func easy() *Table {
	t := &Table{Ladders: [][]int{{0, 1}, {0, 1, 2}}}
	for i := range 12 {
		right := i / 2 % 2
		one := Interval{Content: []float64{float64(right), 0.5, 0.5}}
		for _, c := range t.allChoices() {
			trial := Trial{Cost: 2e4 * float64(1+c[1]), Accuracy: 0.1, Sure: 0.5}
			if c[0] == right {
				trial.Accuracy = 0.5 + 0.25*float64(c[1])
			}
			one.Trials = append(one.Trials, trial)
		}
		t.Intervals = append(t.Intervals, one)
	}
	return t
}

// TestTrainPolicy: the policy finds what the sensor's numbers mean, and sends as much as the link carries.
func TestTrainPolicy(t *testing.T) {
	table := easy()
	o := UsualTraining()
	o.Updates, o.Streams = 120, 8
	first, last := 0.0, 0.0
	p := TrainPolicy(table, o, func(update int, reward float64) {
		if update == 0 {
			first = reward
		}
		last = reward
	})
	if last < first+1 {
		t.Errorf("the reward goes from %.2f to %.2f", first, last)
	}
	for _, test := range []struct{ share, accuracy, cost float64 }{{1.2, 0.97, 1}, {0.7, 0.72, 0.8}, {0.45, 0.47, 0.55}} {
		_, accuracy, cost := JudgePolicy(table, p, p.Choose, test.share)
		t.Logf("a link of %v: accuracy %.3f for %.3f", test.share, accuracy, cost)
		if accuracy < test.accuracy || cost > test.cost {
			t.Errorf("a link of %v: accuracy %.3f for %.3f, want %v for %v", test.share, accuracy, cost, test.accuracy, test.cost)
		}
	}
	if again := TrainPolicy(table, o, func(int, float64) {}); !slices.Equal(again.Params, p.Params) {
		t.Error("the same seed trains another policy")
	}
}

// TestLeavesOut: intervals behind one that is too much for the link are lost, and cost reward.
func TestLeavesOut(t *testing.T) {
	s := BeginStream(easy(), 3, 0.25, nil) // 15 kB an interval
	p := NewPolicy(easy().Ladders, rand.New(rand.NewPCG(1, 1)))
	reward, trials := s.Send(p, []int{1, 2}) // 60 kB: three intervals more are waited for, of which two jam the link at their beginning
	if want := 5*1.0 - 3 - 1; len(trials) != 2 || trials[0].Cost != 6e4 || trials[1] != (Trial{}) || math.Abs(reward-want) > 1e-9 || s.at != 5 {
		t.Errorf("%+v, reward %v, at interval %d; want %v", trials, reward, s.at, want)
	}
	if reward, trials := s.Send(p, []int{0, 0}); len(trials) != 2 || math.Abs(reward-(5*0.5-(50.0/15-1)-1)) > 1e-9 {
		t.Errorf("behind it: %+v, reward %v", trials, reward)
	}
}

// TestHeldOut: on streets by which nothing was chosen, the policy of the package casva is worth more than chance, and not much less than the configuration that
// is the best of all there afterwards.
func TestHeldOut(t *testing.T) {
	file, err := os.Open("testdata/heldout.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table, err := ReadTable(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := StreetPolicy()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(6, 1))
	chance := func([]float64) (choice []int) {
		for _, l := range table.Ladders {
			choice = append(choice, r.IntN(len(l)))
		}
		return choice
	}
	for _, share := range []float64{0.05, 0.1, 0.2, 0.4, 0.8} {
		learnt, accuracy, cost := JudgePolicy(table, p, p.Choose, share)
		drawn, _, _ := JudgePolicy(table, p, chance, share)
		fixed := math.Inf(-1)
		for _, choice := range table.allChoices() {
			reward, _, _ := JudgePolicy(table, p, func([]float64) []int { return choice }, share)
			fixed = max(fixed, reward)
		}
		t.Logf("link %v: reward %.3f (accuracy %.3f for %.3f), by chance %.3f, by the best fixed configuration %.3f", share, learnt, accuracy, cost, drawn, fixed)
		if learnt < drawn+1 || learnt < fixed-0.2 {
			t.Errorf("link %v: reward %.3f, by chance %.3f, by the best fixed configuration %.3f", share, learnt, drawn, fixed)
		}
	}
}

// loss is what slope is of.
func (l *trainer) loss(m *moment, entropy float64) float64 {
	out, _ := l.policy.Forward(m.state)
	chances := l.policy.Chances(out)
	ratio, _ := l.probabilityRatio(m, chances)
	gain := min(ratio*m.advantage, min(max(ratio, 1-l.o.Clip), 1+l.o.Clip)*m.advantage)
	if m.advantage < 0 {
		gain = max(gain, l.o.Lower*m.advantage)
	}
	for _, c := range chances {
		for _, v := range c {
			gain -= entropy * v * math.Log(v)
		}
	}
	return -gain
}

// TestSlope: the gradient of the loss against central differences, where neither clip holds and where each does.
func TestSlope(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	l := &trainer{o: UsualTraining(), policy: NewPolicy([][]int{{0, 1, 2}, {0, 1}}, r)}
	for i := range l.policy.Params {
		l.policy.Params[i] = r.NormFloat64() / 2
	}
	for _, advantage := range []float64{1.5, -0.7} {
		for _, older := range []float64{-0.1, 0.4, -0.4, -1.5} {
			m := &moment{choice: []int{2, 0}, advantage: advantage}
			for range l.policy.In {
				m.state = append(m.state, r.NormFloat64())
			}
			out, _ := l.policy.Forward(m.state)
			for knob, chances := range l.policy.Chances(out) {
				m.chance += math.Log(chances[m.choice[knob]])
			}
			m.chance += older
			gradient := make([]float64, len(l.policy.Params))
			l.addLossGradient(m, 0.03, 2, gradient)
			for i := range l.policy.Params {
				const step = 1e-6
				was := l.policy.Params[i]
				l.policy.Params[i] = was + step
				up := l.loss(m, 0.03)
				l.policy.Params[i] = was - step
				down := l.loss(m, 0.03)
				l.policy.Params[i] = was
				if want := 2 * (up - down) / (2 * step); math.Abs(gradient[i]-want) > 1e-5*(1+math.Abs(want)) {
					t.Fatalf("advantage %v, older by %v, parameter %d: %v, want %v", advantage, older, i, gradient[i], want)
				}
			}
		}
	}
}

// TestEstimate: with a trace of 1, advantages and the critic's expectation add up to the rewards that come.
func TestEstimate(t *testing.T) {
	l := &trainer{o: Training{Discount: 0.5, Trace: 1}}
	moments := []moment{{reward: 1, value: 0.3}, {reward: 2, value: -1}, {reward: 4, value: 7}}
	l.estimateAdvantages(moments, 8)
	for i, want := range []float64{1 + 1 + 1 + 1, 2 + 2 + 2, 4 + 4} {
		if m := moments[i]; math.Abs(m.target-want) > 1e-12 || math.Abs(m.advantage+m.value-want) > 1e-12 {
			t.Errorf("moment %d: %+v, want %v to come", i, m, want)
		}
	}
}

func TestTableFile(t *testing.T) {
	var text bytes.Buffer
	want := easy()
	if err := want.Write(&text); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTable(bytes.NewReader(text.Bytes()))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	lines := strings.SplitAfter(text.String(), "\n")
	for what, broken := range map[string]string{
		"has 5 trials":   strings.Join(slices.Delete(slices.Clone(lines), 3, 4), ""),
		"is neither":     lines[0] + lines[2],
		"invalid syntax": lines[0] + "interval,a,b,c\n",
		"of 2 knobs":     lines[0],
	} {
		if _, err := ReadTable(strings.NewReader(broken)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v does not say %q", err, what)
		}
	}
}

type numberedTones struct{ *pipelinetest.Tones }

func (numberedTones) Sense(interval int) ([]float64, error) {
	return []float64{float64(interval), 0, 1}, nil
}
func (numberedTones) Sure(pipeline.Result) float64 { return 0.25 }

// TestRecord: each configuration is where Send looks for it.
func TestRecord(t *testing.T) {
	lab := pipeline.NewLab(numberedTones{pipelinetest.NewTones(2, false)})
	table, err := RecordTable(lab, [][]int{{0, 2, 4}, {1, 3, 4}}, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	for interval, one := range table.Intervals {
		for _, choice := range table.allChoices() {
			accuracy, cost, _, err := lab.Try(interval, table.choiceConfig(choice))
			if got := one.Trials[table.choiceIndex(choice)]; err != nil || got != (Trial{cost, accuracy, 0.25}) {
				t.Errorf("interval %d, %v: %+v, want accuracy %v for %v", interval, choice, got, accuracy, cost)
			}
		}
		if last := one.Trials[len(one.Trials)-1]; last.Accuracy != 1 || one.Content[0] != float64(interval) {
			t.Errorf("interval %d: %+v", interval, one)
		}
	}
}
