package frontend

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

var mutatedBodies = flag.Int("bodies", 30000, "bodies that TestMutatedBodies sends")

// TestMutatedBodies sends bodies that come of those of the tables and samples, by hostile values, swaps, cuts and flipped bits,
// to all paths that take one and all kinds of models. With -bodies 1000000 it takes a minute or so.
func TestMutatedBodies(t *testing.T) {
	pick := rand.New(rand.NewPCG(2, uint64(*mutatedBodies)))
	m := mutator{Rand: pick}
	sources := slices.DeleteFunc(postedBodies(t), func(c posted) bool { return len(c.body) > 4000 })
	for _, c := range sources {
		m.bodies = append(m.bodies, c.body)
	}
	first, _ := newEvery(t, 0)
	paths, forms := postPaths(t, first)
	fronts := make([]*Frontend, len(everyModel))
	statuses, begun := map[int]int{}, time.Now()
	for i := range *mutatedBodies {
		if i%20000 == 0 { // their schedulers keep what they were sent
			for kind := range everyModel {
				fronts[kind], _ = newEvery(t, kind)
			}
		}
		c := sources[pick.IntN(len(sources))]
		front, path := fronts[kindOf(c.model)], c.path
		if pick.IntN(4) == 0 {
			front, path = fronts[pick.IntN(len(fronts))], paths[pick.IntN(len(paths))]
		}
		if forms[path] == nil {
			continue
		}
		body := m.mutate(c.body)
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
		w := httptest.NewRecorder()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		front.Handler().ServeHTTP(w, r.WithContext(ctx))
		why := ""
		if ctx.Err() != nil {
			why = "it waits"
		} else if w.Code == http.StatusOK || w.Code >= 500 || pick.IntN(8) == 0 { // the forms of refusals take as long as the rest
			why = unfit(w, path, forms[path])
		} else if !json.Valid(w.Body.Bytes()) {
			why = "the answer is no JSON"
		}
		if why != "" || openJobs(front) != 0 || front.shared.Held() != 0 {
			t.Fatalf("%s %.2000q: %s; %d jobs, %d bytes: status %d, %.300s", path, body, why, openJobs(front), front.shared.Held(), w.Code, w.Body)
		}
		stop()
		statuses[w.Code]++
	}
	var said []string
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		said = append(said, fmt.Sprintf("%d times %d", statuses[status], status))
	}
	t.Logf("%s; %.0f bodies/s", strings.Join(said, ", "), float64(*mutatedBodies)/time.Since(begun).Seconds())
	if answered := statuses[http.StatusOK]; answered < *mutatedBodies/50 {
		t.Errorf("%d bodies were answered", answered)
	}
}

// mutator makes bodies of others.
type mutator struct {
	*rand.Rand
	bodies []string
}

// mutate changes a body in one or two places.
func (m *mutator) mutate(body string) string {
	for range 1 + m.IntN(4)/2 {
		if body == "" {
			return body
		}
		begin, end := m.value(body)
		switch m.IntN(8) {
		case 0, 1, 2:
			body = body[:begin] + hostile[m.IntN(len(hostile))] + body[end:]
		case 3: // of another body
			other := m.bodies[m.IntN(len(m.bodies))]
			if other != "" {
				from, to := m.value(other)
				body = body[:begin] + other[from:to] + body[end:]
			}
		case 4: // twice, as an element or a member more
			body = body[:end] + "," + body[begin:]
		case 5:
			body = body[:begin] + body[end:]
		case 6:
			at := m.IntN(len(body))
			body = body[:at] + string(rune(m.IntN(0x300))) + body[at+1:]
		case 7:
			at := m.IntN(len(body))
			body = body[:at] + string([]byte{body[at] ^ 1<<m.IntN(8)}) + body[at+1:]
		}
	}
	return body
}

// value is a place in a body that is a JSON value mostly: between two of its marks.
func (m *mutator) value(body string) (begin, end int) {
	const marks = ":,[]{}"
	at := m.IntN(len(body))
	begin = strings.LastIndexAny(body[:at], marks) + 1
	if end = strings.IndexAny(body[begin:], marks); end < 0 {
		return begin, len(body)
	}
	return begin, begin + end
}
