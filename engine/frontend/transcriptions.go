package frontend

import (
	"cmp"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/transcriptions"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/speech"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// transcriptionRoute is that of the text of sound.
func (e *pipelineEndpoints) transcriptionRoute() route {
	told := describeOperation("The text of a sound, in OpenAI's form", ofRuns, transcriptions.Answers(), transcriptions.Body)
	told.Form = transcriptions.FormBody
	return postRoute("/v1/audio/transcriptions", e.answerSound, told)
}

// answerSound hears a sound.
func (e *pipelineEndpoints) answerSound(x *exchange.Exchange, r *http.Request) {
	if refused := e.hearSound(x, r); refused != nil {
		x.Refuse(refused)
	}
}

// formPace is about what a byte of a form takes to be found to be of its file.
const formPace = 2 * time.Nanosecond

// hearSound answers itself unless it returns a refusal.
func (e *pipelineEndpoints) hearSound(x *exchange.Exchange, r *http.Request) *exchange.Refusal {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		asked, refused := exchange.Prepare(x, r, transcriptions.DecodeBody, func(asked *transcriptions.Request) (*transcriptions.Request, *exchange.Refusal) { return asked, nil })
		if refused != nil {
			return refused
		}
		return e.writeHeard(x, r, asked, func() { asked.File = nil })
	}
	b, refused := x.ReadCoded(r)
	if refused != nil {
		return refused
	}
	release := sync.OnceFunc(b.Release)
	defer release()
	var asked *transcriptions.Request
	var wrong *api.Error
	stage := processors.Stage{Kind: "sound form", Takes: time.Duration(len(b.Bytes)) * formPace}
	refused = x.RunStage(r.Context(), stage, func() error {
		asked, wrong = transcriptions.DecodeForm(r.Header.Get("Content-Type"), b.Bytes)
		return nil
	})
	switch {
	case refused != nil:
		return refused
	case wrong != nil:
		return exchange.Invalid(wrong)
	}
	return e.writeHeard(x, r, asked, release)
}

// writeHeard answers with what is heard, unless it returns a refusal. It calls release when the file is not needed any more.
func (e *pipelineEndpoints) writeHeard(x *exchange.Exchange, r *http.Request, asked *transcriptions.Request, release func()) *exchange.Refusal {
	m, refused := e.models.Pipeline(x, "speech", asked.Model)
	if refused != nil {
		return refused
	}
	x.Rename(r, asked.RequestID)
	from, refused := x.Ask(e.pool, r, m.Name, asked.Model, "")
	if refused != nil {
		return refused
	}
	symbols, err := m.Pipeline.Alphabet()
	settings, failed := m.Pipeline.Sound()
	if err := cmp.Or(err, failed); err != nil {
		return exchange.Unavailable("the model `%s` has failed: %s", m.Name, engine.HidePaths(err.Error()))
	}
	c := e.speech.Call(from, &speech.Pipeline{Settings: settings, Alphabet: speech.NewAlphabet(symbols), Decode: e.openSound}, m.Pipeline.Networks)
	defer c.Close()
	if err := c.Read(r.Context(), asked.File); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	release()
	if err := c.Run(r.Context()); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	begun := time.Now()
	writeTranscript(x, asked, c.Transcript())
	c.Record.Frames.Written = time.Since(begun)
	return nil
}

// TranscriptOf is what was heard, as it is answered.
func TranscriptOf(heard *speech.Transcript) *transcriptions.Answer {
	a := &transcriptions.Answer{Text: heard.Text, Seconds: heard.Seconds}
	for _, s := range heard.Segments {
		a.Segments = append(a.Segments, transcriptions.Segment{Start: s.Start, End: s.End, Text: s.Text, AvgLogprob: s.LogProb})
	}
	for _, w := range heard.Words {
		a.Words = append(a.Words, transcriptions.Word{Word: w.Text, Start: w.Start, End: w.End})
	}
	return a
}

// writeTranscript answers with what was heard.
func writeTranscript(x *exchange.Exchange, asked *transcriptions.Request, heard *speech.Transcript) {
	kind, body := asked.Body(TranscriptOf(heard))
	h := x.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(http.StatusOK)
	if _, err := x.Write(body); err != nil {
		x.Left(err)
	}
}
