package frontend

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"image/png"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/mutate"
)

var mutatedBodies = flag.Int("bodies", 30000, "bodies that TestMutatedBodies sends")

// target is a server of one kind of models.
type target struct {
	*Frontend
	key     string
	paths   []string
	forms   map[string][]string // of errors, by path
	blobs   func() int          // that are held
	sources []posted            // bodies that are written for it
}

// ofTexts is a target with a model of everyModel.
func ofTexts(t testing.TB, kind int, all []posted) *target {
	front, _ := newEvery(t, kind)
	g := &target{Frontend: front, blobs: func() int { return 0 }}
	for _, c := range all {
		if kindOf(c.model) == kind {
			g.sources = append(g.sources, c)
		}
	}
	return g
}

// ofTensors is a target with networks, whose key is an admin's.
func ofTensors(t *testing.T) *target {
	n := newNetwork(t, Config{MaxBody: 1 << 20, DevMode: true, Keys: ring(t, "key @admin")})
	n.s.Set = func(m *wire.SetModel) *engine.Error {
		if m.Unload { // the client would wait for the scheduler to say that it is absent
			return engine.Errorf(engine.CodeOverloaded, "it is in use")
		}
		return nil
	}
	n.s.Reset = func(m *wire.Reset) *wire.ResetDone { return &wire.ResetDone{Serial: m.Serial} }
	var file bytes.Buffer
	if err := png.Encode(&file, stripes()); err != nil {
		t.Fatal(err)
	}
	g := &target{Frontend: n.Frontend, key: "key", blobs: func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.held)
	}}
	put := func(path, body string, binary ...byte) {
		g.sources = append(g.sources, posted{path: path, body: body + string(binary), binary: len(binary)})
	}
	page := base64.StdEncoding.EncodeToString(file.Bytes())
	put("/v1/ocr", `{"model":"reader","image":"data:image/png;base64,`+page+`"}`)
	put("/v1/ocr", `{"model":"reader","document":{"type":"image_url","image_url":{"url":"`+page+`"}},"user":"u"}`)
	for _, of := range []string{"open", "org/eye", "pair", "demo"} {
		put("/v2/models/"+of+"/infer", `{"id":"a","inputs":[{"name":"x","datatype":"UINT8","shape":[2,1],"data":[1,2]}],"outputs":[{"name":"y","parameters":{"binary_data":false}}]}`)
		put("/v2/repository/models/"+of+"/load", `{"parameters":{"config":"x"}}`)
		put("/v2/repository/models/"+of+"/unload", `{"parameters":{"unload_dependents":true}}`)
		put("/v1/models/"+of+"/load", "")
		put("/v1/models/"+of+"/unload", "{}")
	}
	put("/v2/models/open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1],"data":[1]},{"name":"seed:y","datatype":"UINT8","shape":[1,1],"data":[1]}],"outputs":[{"name":"gradient:x"}]}`)
	put("/v2/models/pair/infer", `{"inputs":[{"name":"a","datatype":"INT64","shape":[2],"data":[1,-2]},{"name":"b","datatype":"FP16","shape":[1],"data":[0.5]}],"outputs":[{"name":"z"}]}`)
	put("/v2/models/open/infer", `{"inputs":[{"name":"x","datatype":"UINT8","shape":[2,3],"parameters":{"binary_data_size":6}}],"parameters":{"binary_data_output":true}}`, 1, 2, 3, 4, 5, 6)
	picture := element(file.Bytes())
	put("/v2/models/eye/infer", fmt.Sprintf(`{"inputs":[{"name":"images","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":%d}}]}`, len(picture)), picture...)
	put("/v2/models/eye/infer", fmt.Sprintf(`{"inputs":[{"name":"images","datatype":"BYTES","shape":[1],"data":[%q]}]}`, base64.StdEncoding.EncodeToString(file.Bytes())))
	put("/v2/repository/index", `{"ready":true}`)
	put("/reset_prefix_cache", "")
	put("/ping", "{}")
	return g
}

// send posts a body, of which the last bytes are binary data, and says what is wrong with the answer.
func (g *target) send(ctx context.Context, path, body string, binary int, formed bool) (w *httptest.ResponseRecorder, why string) {
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
	if g.key != "" {
		r.Header.Set("Authorization", "Bearer "+g.key)
	}
	if binary > 0 {
		r.Header.Set(oip.HeaderLength, strconv.Itoa(len(body)-binary))
	}
	w = httptest.NewRecorder()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	g.Handler().ServeHTTP(w, r.WithContext(ctx))
	switch {
	case ctx.Err() != nil:
		why = "it waits"
	case w.Header().Get(oip.HeaderLength) != "":
		if n, err := strconv.Atoi(w.Header().Get(oip.HeaderLength)); err != nil || n > w.Body.Len() || !json.Valid(w.Body.Bytes()[:n]) {
			why = "no JSON is before the binary data"
		}
	case w.Code == http.StatusOK && w.Body.Len() == 0:
	case w.Code == http.StatusOK || w.Code >= 500 || formed:
		why = unfit(w, path, g.forms[path])
	case !json.Valid(w.Body.Bytes()):
		why = "the answer is no JSON"
	}
	if why == "" && (openJobs(g.Frontend) != 0 || g.shared.Held() != 0 || g.blobs() != 0) {
		why = "something is left of it"
	}
	return w, why
}

// TestMutatedBodies sends bodies that come of those of the tables and samples, by hostile values, swaps, cuts and flipped bits,
// to all paths that take one and all kinds of models. With -bodies 1000000 it takes a minute or so.
func TestMutatedBodies(t *testing.T) {
	pick := rand.New(rand.NewPCG(2, uint64(*mutatedBodies)))
	all := slices.DeleteFunc(postedBodies(t), func(c posted) bool { return len(c.body) > 4000 })
	var seeds []string
	for _, c := range append(all, ofTensors(t).sources...) {
		seeds = append(seeds, c.body)
	}
	m := mutate.OfJSON(pick, seeds)
	targets := make([]*target, len(everyModel)+1)
	open := func() { // from time to time: their schedulers keep what they were sent
		for kind := range everyModel {
			targets[kind] = ofTexts(t, kind, all)
		}
		targets[len(everyModel)] = ofTensors(t)
		for _, g := range targets {
			g.paths, g.forms = postPaths(t, g.Frontend)
		}
	}
	statuses, sent, begun := map[int]int{}, map[string]int{}, time.Now()
	for i := range *mutatedBodies {
		if i%20000 == 0 {
			open()
		}
		g := targets[pick.IntN(len(targets))]
		c := g.sources[pick.IntN(len(g.sources))]
		path := c.path
		if pick.IntN(4) == 0 {
			path = g.paths[pick.IntN(len(g.paths))]
		}
		if g.forms[path] == nil { // it is of a sample that is refused
			continue
		}
		body := m.Mutate(c.body)
		w, why := g.send(t.Context(), path, body, c.binary, pick.IntN(8) == 0) // the forms of refusals take as long as the rest
		if why != "" {
			t.Fatalf("%s %.2000q: %s; %d jobs, %d bytes, %d blobs: status %d, %.300s", path, body, why, openJobs(g.Frontend), g.shared.Held(), g.blobs(), w.Code, w.Body)
		}
		statuses[w.Code]++
		sent[path]++
	}
	var said []string
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		said = append(said, fmt.Sprintf("%d times %d", statuses[status], status))
	}
	t.Logf("%s; %.0f bodies/s", strings.Join(said, ", "), float64(*mutatedBodies)/time.Since(begun).Seconds())
	if answered := statuses[http.StatusOK]; answered < *mutatedBodies/50 {
		t.Errorf("%d bodies were answered", answered)
	}
	for _, g := range targets {
		for _, path := range g.paths {
			if sent[path] < *mutatedBodies/5000 {
				t.Errorf("%s was sent %d bodies", path, sent[path])
			}
		}
	}
}
