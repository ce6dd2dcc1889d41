package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// arrivals is a null runner of a model with a real one's vocabulary and a long context, which notes when each pass began.
type arrivals struct {
	nullRunner
	begun chan time.Time
}

func (a arrivals) Info() wire.ExecutorInfo {
	info := a.nullRunner.Info()
	limits := *info.Models[0].Tokens
	limits.VocabSize, limits.MaxModelLen, limits.NumBlocks = 151_936, 33_000, 16_384
	info.Models[0].Tokens = &limits
	return info
}

func (a arrivals) Begin(run *wire.Run) (executor.Pass, error) {
	a.begun <- time.Now()
	return a.nullRunner.Begin(run)
}

// BenchmarkPath is one request of so many token ids at a time, none of them seen before: from its first byte to the
// beginning of its pass (to-executor-us), and to the whole answer (answer-us). With more tokens to generate it is
// what each of these takes, where the answer may be anything and where it must have a form that leaves each token open.
func BenchmarkPath(b *testing.B) {
	a := arrivals{begun: make(chan time.Time, 1024)}
	c := newPipelineOf(b, a).dial()
	defer c.conn.Close()
	requests := 0
	for _, answer := range []struct {
		name, form string
		tokens     int
	}{{"tokens=1", "", 1}, {"tokens=65", "", 65}, {"form=65", openChoices(65), 65}} {
		for _, ids := range []int{32, 2_000, 32_000} {
			b.Run(fmt.Sprintf("ids=%d/%s", ids, answer.name), func(b *testing.B) { c.measure(b, a, ids, answer.tokens, answer.form, &requests) })
		}
	}
}

// openChoices is the form of answers of so many letters at most, each of which may be the last one.
func openChoices(tokens int) string {
	choices := []string{strings.Repeat("x", tokens)}
	for i := range tokens {
		choices = append(choices, strings.Repeat("x", i)+"y")
	}
	return fmt.Sprintf(`,"structured_outputs":{"choice":["%s"]}`, strings.Join(choices, `","`))
}

func (c *caller) measure(b *testing.B, a arrivals, ids, tokens int, form string, requests *int) {
	var arrived, answered, each []time.Duration
	var room []byte
	for b.Loop() {
		*requests++
		room = pathBody(room, ids, tokens, form, *requests)
		body := string(room)
		start := time.Now()
		if status, text, err := c.do(body); status != 200 || err != nil {
			b.Fatal(status, text, err)
		}
		end := time.Now()
		first := <-a.begun
		last := first
		for range tokens - 1 {
			last = <-a.begun
		}
		arrived, answered = append(arrived, first.Sub(start)), append(answered, end.Sub(start))
		each = append(each, last.Sub(first)/time.Duration(max(tokens-1, 1)))
	}
	report := func(list []time.Duration, unit string) {
		slices.Sort(list)
		b.ReportMetric(float64(list[0].Nanoseconds())/1e3, "least-"+unit)
		b.ReportMetric(float64(list[len(list)/2].Nanoseconds())/1e3, "p50-"+unit)
	}
	if tokens > 1 {
		report(each, "token-us")
	} else {
		report(arrived, "to-executor-us")
		report(answered, "answer-us")
	}
}

// pathBody writes a request of token ids as clients write them, of five or six digits; at counts the requests, so that
// no two begin alike.
func pathBody(room []byte, ids, tokens int, form string, at int) []byte {
	body := append(room[:0], `{"model":"demo","prompt":[`...)
	for i := range ids {
		body = strconv.AppendInt(body, int64(10_000+(i*7919+at*104_729)%141_000), 10)
		body = append(body, ',')
	}
	return fmt.Appendf(body[:len(body)-1], `],"max_tokens":%d,"temperature":0%s}`, tokens, form)
}
