package frontend

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// everyModel is a model of each kind that paths ask for; their contexts hold contextTokens.
var everyModel = []struct {
	name string
	checkpoint.Model
}{
	{"lm", checkpoint.Model{Kind: checkpoint.Generator, Pool: engine.PoolLast}},
	{"embedder", checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, Normalize: true}},
	{"classifier", checkpoint.Model{Kind: checkpoint.Classifier, Pool: engine.PoolFirst, Labels: []string{"no", "yes", "both"}, Activation: checkpoint.Softmax}},
	{"ranker", checkpoint.Model{Kind: checkpoint.Classifier, Pool: engine.PoolFirst, Labels: []string{"fits"}, Activation: checkpoint.Sigmoid}},
}

// kindOf is the place of a name in everyModel.
func kindOf(name string) int {
	for i := range everyModel {
		if everyModel[i].name == name {
			return i
		}
	}
	panic(name)
}

const (
	contextTokens = 128
	vectorNumbers = 2
)

// newEvery makes a Frontend of one of everyModel, or of all of them for -1.
func newEvery(t testing.TB, which int) (*Frontend, *clienttest.Scheduler) {
	t.Helper()
	f, s := newUnwelcomed(t, Config{MaxBody: 1 << 20}, client.Config{}, answerAny)
	models, heard := []registry.Model(nil), &wire.Welcome{Epoch: 1, Models: 1}
	for i := range everyModel {
		m := &everyModel[i]
		if which >= 0 && which != i {
			continue
		}
		models = append(models, registry.Model{Name: m.name, TextKey: m.name, Checkpoint: &m.Model, Open: func() (*text.Text, error) {
			text, err := demo(byteTokenizer{}).Open()
			text.Specials = noSpecials{}
			return text, err
		}})
		served := clienttest.Served(m.name, byteVocab)
		served.Keep = wire.KeepAlways
		served.Tokens.MaxModelLen, served.Tokens.Hidden, served.Tokens.Labels = contextTokens, vectorNumbers, max(1, len(m.Labels))
		heard.Served = append(heard.Served, served)
	}
	if err := f.SetModels(models); err != nil {
		t.Fatal(err)
	}
	f.pool.Deliver(heard)
	return f, s
}

// answerAny answers what a job asks for: a vector of it or of each of its tokens, logits, or tokens that are all an x.
func answerAny(s *wire.Submit) []*wire.Result {
	work := tokens(s)
	if work.Open || !work.Ask.Allowed.Empty() { // an answer that has a form goes on by what clienttest's scheduler does not answer
		return []*wire.Result{{Job: s.ID, Err: engine.Errorf(engine.CodeOverloaded, "no forms today")}}
	}
	if work.Ask.Pool == engine.PoolNone {
		return replies(s, byteIDs("xxxxxxxx"))
	}
	width, rows := vectorNumbers, 1
	if work.Ask.Head {
		for i := range everyModel {
			if everyModel[i].name == s.Model {
				width = len(everyModel[i].Labels)
			}
		}
	}
	if work.Ask.Pool == engine.PoolAll {
		rows = len(work.IDs)
	}
	out := &engine.TokenOutput{Vector: make([]float32, width*rows)}
	for i := range out.Vector {
		out.Vector[i] = float32(len(work.IDs) + i)
	}
	return []*wire.Result{{Job: s.ID, Finish: engine.FinishLength, Output: out}}
}
