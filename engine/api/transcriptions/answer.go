package transcriptions

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// Answer is what was heard.
type Answer struct {
	Text     string
	Seconds  float64
	Segments []Segment
	Words    []Word
}

// Segment is a part of a sound between pauses. Its figures that no pass of a network without decoding has are 0.
type Segment struct {
	ID               int     `json:"id"`
	Seek             int     `json:"seek"`
	Start            float64 `json:"start"`
	End              float64 `json:"end"`
	Text             string  `json:"text"`
	Tokens           []int   `json:"tokens"`
	Temperature      float64 `json:"temperature"`
	AvgLogprob       float64 `json:"avg_logprob"`
	CompressionRatio float64 `json:"compression_ratio"`
	NoSpeechProb     float64 `json:"no_speech_prob"`
}

// Word is a word with its time.
type Word struct {
	Word  string  `json:"word"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// usage is by how long the sound is.
type usage struct {
	Type    string  `json:"type"`
	Seconds float64 `json:"seconds"`
}

type plain struct {
	Text  string `json:"text"`
	Usage usage  `json:"usage"`
}

type verbose struct {
	Task     string    `json:"task"`
	Language string    `json:"language"`
	Duration float64   `json:"duration"`
	Text     string    `json:"text"`
	Segments []Segment `json:"segments"`
	Words    []Word    `json:"words,omitempty"`
	Usage    usage     `json:"usage"`
}

// Answers describes answers, by their types.
func Answers() map[string]fields.Schema {
	text := fields.Schema{"type": "string"}
	return map[string]fields.Schema{
		"application/json": fields.AnyOf(fields.Answer(reflect.TypeFor[plain]()), fields.Answer(reflect.TypeFor[verbose]())),
		"text/plain":       text, "text/vtt": text, "application/x-subrip": text,
	}
}

// Body is the answer as a request wants it.
func (r *Request) Body(a *Answer) (contentType string, body []byte) {
	a.round()
	used := usage{"duration", math.Ceil(a.Seconds)}
	switch r.Format {
	case formatText:
		return "text/plain; charset=utf-8", []byte(a.Text + "\n")
	case formatSRT:
		return "application/x-subrip; charset=utf-8", a.subtitles("", ",", true)
	case formatVTT:
		return "text/vtt; charset=utf-8", a.subtitles("WEBVTT\n\n", ".", false)
	case formatVerbose:
		v := &verbose{"transcribe", r.Language, a.Seconds, a.Text, a.Segments, nil, used}
		if r.Words {
			v.Words = a.Words
		}
		return "application/json", encode(v)
	}
	return "application/json", encode(&plain{a.Text, used})
}

func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and finite numbers alone
	}
	return body
}

// round leaves times of milliseconds.
func (a *Answer) round() {
	for i := range a.Segments {
		s := &a.Segments[i]
		s.ID, s.Tokens = i, []int{}
		roundAll(&s.Start, &s.End, &s.AvgLogprob)
	}
	for i := range a.Words {
		roundAll(&a.Words[i].Start, &a.Words[i].End)
	}
	roundAll(&a.Seconds)
	if a.Segments == nil {
		a.Segments = []Segment{}
	}
}

func roundAll(values ...*float64) {
	for _, v := range values {
		*v = math.Round(*v*1000) / 1000
	}
}

// subtitles are the segments behind a head, with a point in their times.
func (a *Answer) subtitles(head, point string, numbered bool) []byte {
	var b strings.Builder
	b.WriteString(head)
	for i, s := range a.Segments {
		if numbered {
			fmt.Fprintln(&b, i+1)
		}
		fmt.Fprintf(&b, "%s --> %s\n%s\n\n", clock(s.Start, point), clock(s.End, point), s.Text)
	}
	return []byte(b.String())
}

// clock is a time as subtitles have it.
func clock(seconds float64, point string) string {
	at := time.Duration(math.Round(seconds*1000)) * time.Millisecond
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", int(at.Hours()), int(at.Minutes())%60, int(at.Seconds())%60, point, at.Milliseconds()%1000)
}
