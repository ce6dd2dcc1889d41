// Package mergingtest holds trainers to what searches for merges rely on, and has one for tests of searches whose outcome is known beforehand:
// which layers can be shared, and how fast. That one trains nothing.
package mergingtest

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
)

// Pair is two models, of which the first can adopt layers of the second, and some of those can be trained together.
type Pair struct {
	Models []merging.TrainedModel
	Plan   *merging.Plan
	Joint  func(merging.Group) bool // the trainer can train one copy for both
	Epochs float64                  // that change weights
	Rate   float64
}

// The models of a Pair.
const (
	adopter = iota
	donor
)

// Run runs the suite.
func Run(t *testing.T, tr merging.Trainer, p Pair) {
	s := &suite{tr, p}
	for name, test := range map[string]func(t *testing.T){
		"EqualSeedsGiveEqualWeights":    s.equalSeeds,
		"RestoredSessionsGoOnEqually":   s.restored,
		"AdoptedWeightsAreTheDonors":    s.adopted,
		"UntiedLayersGoBack":            s.untied,
		"LayersTiedTogetherHaveOneCopy": s.joint,
		"MeansAreOfTheFilesWeights":     s.mean,
		"ModelsNamedAloneAreTrained":    s.named,
		"TrainingBringsBackWhatIsFound": s.learns,
		"BadTiesAreRefused":             s.refused,
		"EndedContextsEndTraining":      s.ended,
	} {
		t.Run(name, test)
	}
}

type suite struct {
	trainer merging.Trainer
	Pair
}

func (s *suite) openSession(t *testing.T, seed uint64) merging.Session {
	t.Helper()
	opened, err := s.trainer.Open(context.Background(), s.Models, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

// tiesBetween are of the groups from a number to another one.
func (s *suite) tiesBetween(from, to, donor int) (ties []merging.Tie) {
	for _, g := range s.Plan.Groups[from:to] {
		ties = append(ties, merging.Tie{Members: g.Members, Donor: donor})
	}
	return ties
}

func (s *suite) all() []merging.Tie { return s.tiesBetween(0, len(s.Plan.Groups), donor) }

func mustTie(t *testing.T, in merging.Session, ties []merging.Tie) {
	t.Helper()
	if err := in.Tie(ties); err != nil {
		t.Fatal(err)
	}
}

func (s *suite) trainEpoch(t *testing.T, in merging.Session) []float64 {
	t.Helper()
	losses, err := in.Train(context.Background(), []int{adopter, donor}, s.Epochs, s.Rate)
	if err != nil {
		t.Fatal(err)
	}
	return losses
}

func takeSnapshot(t *testing.T, of merging.Session) []byte {
	t.Helper()
	data, err := of.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// same says that constants have equal elements.
func same(a, b map[string][]float32) bool {
	return maps.EqualFunc(a, b, func(a, b []float32) bool { return slices.Equal(a, b) })
}

func (s *suite) equalSeeds(t *testing.T) {
	var found []map[string][]float32
	for _, seed := range []uint64{1, 1, 2} {
		in := s.openSession(t, seed)
		mustTie(t, in, s.all())
		s.trainEpoch(t, in)
		found = append(found, in.Constants(adopter))
	}
	if !same(found[0], found[1]) {
		t.Error("two sessions of one seed have other weights after the same calls")
	}
	if same(found[0], found[2]) {
		t.Error("sessions of two seeds have the same weights")
	}
}

func (s *suite) restored(t *testing.T) {
	in := s.openSession(t, 1)
	untouched := takeSnapshot(t, in)
	mustTie(t, in, s.all())
	s.trainEpoch(t, in)
	kept := takeSnapshot(t, in)
	s.trainEpoch(t, in)
	want := in.Constants(adopter)
	mustTie(t, in, s.tiesBetween(0, 1, donor))
	s.trainEpoch(t, in)
	for name, at := range map[string]merging.Session{"the session": in, "another session": s.openSession(t, 1)} {
		if err := at.Restore(kept); err != nil {
			t.Fatal(err)
		}
		s.trainEpoch(t, at)
		if !same(at.Constants(adopter), want) {
			t.Errorf("%s has other weights after a snapshot than those of the first time", name)
		}
	}
	if err := in.Restore(untouched); err != nil {
		t.Fatal(err)
	}
	if n := len(in.Constants(adopter)); n > 0 {
		t.Errorf("%d constants differ from the file's after the snapshot of an untouched session", n)
	}
	for name, data := range map[string][]byte{"nothing": nil, "half": kept[:len(kept)/2]} {
		if err := in.Restore(data); err == nil {
			t.Errorf("%s of a snapshot is restored", name)
		}
	}
}

// weights are those of a model's layers in its file, and the names of their constants.
func (s *suite) weights(t *testing.T, model int) (elements map[string][]float32, constant map[string]string) {
	t.Helper()
	file, err := onnx.Open(s.Models[model].File)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	elements, constant = map[string][]float32{}, map[string]string{}
	for _, l := range inspect.Layers(file.Graph) {
		constant[l.Name] = l.Weights.Name
		for _, v := range l.Weights.Const.Floats() {
			elements[l.Name] = append(elements[l.Name], float32(v))
		}
	}
	return elements, constant
}

func (s *suite) adopted(t *testing.T) {
	in := s.openSession(t, 1)
	mustTie(t, in, s.all())
	s.trainEpoch(t, in)
	if n := len(in.Constants(donor)); n > 0 {
		t.Errorf("%d constants of the donor changed", n)
	}
	given, _ := s.weights(t, donor)
	_, names := s.weights(t, adopter)
	now := in.Constants(adopter)
	for _, g := range s.Plan.Groups {
		if got := now[names[g.Members[adopter].Layer]]; !slices.Equal(got, given[g.Members[donor].Layer]) {
			t.Errorf("layer %s has %d elements that are not those of the donor's layer %s", g.Members[adopter].Layer, len(got), g.Members[donor].Layer)
		}
	}
	if len(now) <= len(s.Plan.Groups) {
		t.Errorf("%d constants changed, want those of %d layers and some that were trained", len(now), len(s.Plan.Groups))
	}
}

func (s *suite) untied(t *testing.T) {
	in := s.openSession(t, 1)
	mustTie(t, in, s.all())
	s.trainEpoch(t, in)
	half := len(s.Plan.Groups) / 2
	mustTie(t, in, s.tiesBetween(0, half, donor))
	_, names := s.weights(t, adopter)
	now := in.Constants(adopter)
	for i, g := range s.Plan.Groups {
		if _, changed := now[names[g.Members[adopter].Layer]]; changed != (i < half) {
			t.Errorf("layer %s differs from the file's: %v", g.Members[adopter].Layer, changed)
		}
	}
	mustTie(t, in, nil)
	if n := len(in.Constants(adopter)); n > 0 {
		t.Errorf("%d constants differ from the file's without ties", n)
	}
	if losses := s.trainEpoch(t, in); slices.Max(losses) > 0 || len(in.Constants(adopter)) > 0 {
		t.Errorf("training without ties has losses %v and changed %d constants", losses, len(in.Constants(adopter)))
	}
}

func (s *suite) joint(t *testing.T) {
	i := slices.IndexFunc(s.Plan.Groups, s.Joint)
	if i < 0 {
		t.Skip("the trainer trains no copy for two")
	}
	in := s.openSession(t, 1)
	mustTie(t, in, s.tiesBetween(i, i+1, merging.NoDonor))
	s.trainEpoch(t, in)
	var copies [2][]float32
	g := s.Plan.Groups[i]
	for m := range copies {
		before, names := s.weights(t, m)
		layer := g.Members[m].Layer
		copies[m] = in.Constants(m)[names[layer]]
		if copies[m] == nil || slices.Equal(copies[m], before[layer]) {
			t.Errorf("layer %s of model %d was not trained", layer, m)
		}
	}
	if !slices.Equal(copies[0], copies[1]) {
		t.Error("the copy of one model differs from that of the other")
	}
}

func (s *suite) mean(t *testing.T) {
	in := s.openSession(t, 1)
	mustTie(t, in, s.tiesBetween(0, 1, merging.MeanDonor))
	s.trainEpoch(t, in)
	g := s.Plan.Groups[0]
	var files [2][]float32
	for m := range files {
		before, _ := s.weights(t, m)
		files[m] = before[g.Members[m].Layer]
	}
	for m := range files {
		_, names := s.weights(t, m)
		now := in.Constants(m)
		got := now[names[g.Members[m].Layer]]
		if len(got) != len(files[0]) || len(now) < 2 {
			t.Fatalf("model %d: %d elements, %d constants changed", m, len(got), len(now))
		}
		for i, v := range got {
			if want := (files[0][i] + files[1][i]) / 2; math.Abs(float64(v-want)) > 1e-6*(1+math.Abs(float64(want))) {
				t.Fatalf("model %d, element %d: got %v, want %v", m, i, v, want)
			}
		}
	}
}

func (s *suite) named(t *testing.T) {
	in := s.openSession(t, 1)
	mustTie(t, in, s.tiesBetween(0, 1, merging.MeanDonor))
	before := in.Constants(donor)
	losses, err := in.Train(context.Background(), []int{adopter}, s.Epochs, s.Rate)
	if err != nil || losses[donor] != 0 || !same(in.Constants(donor), before) {
		t.Errorf("model %d was trained, which was not named: losses %v, %v", donor, losses, err)
	}
	if len(in.Constants(adopter)) < 2 {
		t.Errorf("model %d was not trained", adopter)
	}
}

func (s *suite) learns(t *testing.T) {
	in, ctx := s.openSession(t, 1), context.Background()
	evaluate := func() merging.Score {
		score, err := in.Evaluate(ctx, adopter, merging.HeldOut)
		if err != nil {
			t.Fatal(err)
		}
		if score.Low > score.Value || score.Value > score.High {
			t.Errorf("a score of %v is not in its interval, %v to %v", score.Value, score.Low, score.High)
		}
		return score
	}
	if score := evaluate(); score.Value != 1 || score.Objects == 0 || score.Frames == 0 {
		t.Errorf("the file's own network has %+v, want all objects", score)
	}
	mustTie(t, in, s.all())
	strange, first := evaluate(), s.trainEpoch(t, in)[adopter]
	last := first
	for range 4 {
		last = s.trainEpoch(t, in)[adopter]
	}
	if last >= first {
		t.Errorf("the loss is %v, and was %v at first", last, first)
	}
	if score := evaluate(); strange.Value >= 1 || score.Value <= strange.Value {
		t.Errorf("the score is %v after training, and %v before", score.Value, strange.Value)
	}
	if score, err := in.Evaluate(ctx, donor, merging.HeldOut); err != nil || score.Value != 1 {
		t.Errorf("the donor's score is %+v, %v; want 1", score, err)
	}
}

func (s *suite) refused(t *testing.T) {
	in := s.openSession(t, 1)
	good := s.tiesBetween(0, 1, donor)
	mustTie(t, in, good)
	was := in.Constants(adopter)
	g := good[0].Members
	for name, ties := range map[string][]merging.Tie{
		"no such layer":         {{Members: []merging.Member{g[0], {Model: donor, Layer: "no such layer"}}, Donor: donor}},
		"no such model":         {{Members: []merging.Member{g[0], {Model: 2, Layer: g[1].Layer}}, Donor: donor}},
		"no member":             {{Donor: donor}},
		"a donor that has none": {{Members: g[:1], Donor: donor}},
		"a layer tied twice":    append(s.tiesBetween(0, 1, donor), good...),
		"another signature":     {{Members: []merging.Member{g[0], s.other(g[1])}, Donor: donor}},
	} {
		if err := in.Tie(ties); err == nil {
			t.Errorf("%s: it is tied", name)
		}
		if !same(in.Constants(adopter), was) {
			t.Errorf("%s: a tie that is refused changes constants", name)
		}
	}
}

// other is a layer of a member's model that has another signature.
func (s *suite) other(than merging.Member) merging.Member {
	layers := s.Plan.Models[than.Model].Layers
	at := slices.IndexFunc(layers, func(l merging.Layer) bool { return l.Name == than.Layer })
	i := slices.IndexFunc(layers, func(l merging.Layer) bool { return l.Signature != layers[at].Signature })
	return merging.Member{Model: than.Model, Layer: layers[i].Name}
}

func (s *suite) ended(t *testing.T) {
	in := s.openSession(t, 1)
	mustTie(t, in, s.all())
	s.trainEpoch(t, in)
	kept := takeSnapshot(t, in)
	s.trainEpoch(t, in)
	want := in.Constants(adopter)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := in.Train(ctx, []int{adopter, donor}, s.Epochs, s.Rate); err == nil {
		t.Error("it trains under a context that has ended")
	}
	if err := in.Restore(kept); err != nil {
		t.Fatal(err)
	}
	if s.trainEpoch(t, in); !same(in.Constants(adopter), want) {
		t.Error("training after a context that has ended and a restored snapshot gives other weights")
	}
}
